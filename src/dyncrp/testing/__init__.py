"""Checks for those who write a family or a dynamics of their own: ``check_family`` and ``check_dynamics``.

Each is a list of small checks, one property each, and raises ``AssertionError`` for the first that fails, naming it.
The library's own families and dynamics pass the same ones. Nothing here is told a likelihood or a closed form: all that
can be checked is that what the methods return fits together, and fits the samplers. Checks by Monte Carlo fix their
seeds and allow five standard errors. Choose hyperparameters of moderate size, so that the draws of a table overlap
with those of another.
"""

from dyncrp.testing.dynamics import (
    algebra_is_pointwise,
    check_dynamics,
    durations_are_written_in,
    dynamics_checks,
    dynamics_is_a_value,
    kernel_is_the_sum_of_its_modes,
    kernel_starts_at_one,
    mixture_fits_with_the_dynamics,
    modes_never_grow,
    nonnegative_kernels_are,
    seatings_are_as_likely_as_defined,
    time_passes_in_steps,
)
from dyncrp.testing.families import check_family, family_checks
from dyncrp.testing.families.learning import engine_learns_a_stream, mixture_fits
from dyncrp.testing.families.mathematics import (
    centers_follow_the_data,
    expected_log_likelihood_is_a_gradient,
    expected_log_likelihood_is_below_log_predictive,
    log_bayes_factor_is_a_difference_of_log_partitions,
    log_marginal_is_a_chain_of_predictives,
    log_partition_of_an_empty_table_is_zero,
    log_predictive_is_a_difference_of_log_partitions,
)
from dyncrp.testing.families.options import (
    cells_are_those_of_log_predictive,
    proposals_are_known,
    sharpen_keeps_strangers_apart,
    terms_add_up_to_log_predictive,
    widen_is_to_add_zeros,
)
from dyncrp.testing.families.rows import (
    check_knows_its_width,
    check_refuses_with_the_row,
    check_takes_samples,
    input_is_not_modified,
    rows_do_not_depend_on_each_other,
    safe_norm_is_safe,
    shapes_are_as_documented,
    statistics_start_with_one,
)
from dyncrp.testing.families.sampling import (
    predictive_of_a_table_is_that_of_the_sampler,
    predictive_of_an_empty_table_is_that_of_the_sampler,
    predictive_of_part_of_a_row_is_normalised,
    seeds_repeat_the_draws,
)
from dyncrp.testing.families.values import is_a_frozen_dataclass, is_equal_by_value, is_known

# In the order of the reference: the two that most need, and then each check, as they run.
__all__ = [  # noqa: RUF022
    "check_family",
    "check_dynamics",
    "family_checks",
    "dynamics_checks",
    "is_a_frozen_dataclass",
    "is_equal_by_value",
    "is_known",
    "shapes_are_as_documented",
    "input_is_not_modified",
    "check_takes_samples",
    "check_refuses_with_the_row",
    "check_knows_its_width",
    "safe_norm_is_safe",
    "rows_do_not_depend_on_each_other",
    "statistics_start_with_one",
    "log_partition_of_an_empty_table_is_zero",
    "log_predictive_is_a_difference_of_log_partitions",
    "log_marginal_is_a_chain_of_predictives",
    "log_bayes_factor_is_a_difference_of_log_partitions",
    "expected_log_likelihood_is_below_log_predictive",
    "expected_log_likelihood_is_a_gradient",
    "centers_follow_the_data",
    "seeds_repeat_the_draws",
    "predictive_of_an_empty_table_is_that_of_the_sampler",
    "predictive_of_a_table_is_that_of_the_sampler",
    "predictive_of_part_of_a_row_is_normalised",
    "widen_is_to_add_zeros",
    "sharpen_keeps_strangers_apart",
    "proposals_are_known",
    "terms_add_up_to_log_predictive",
    "cells_are_those_of_log_predictive",
    "engine_learns_a_stream",
    "mixture_fits",
    "dynamics_is_a_value",
    "durations_are_written_in",
    "modes_never_grow",
    "kernel_starts_at_one",
    "kernel_is_the_sum_of_its_modes",
    "time_passes_in_steps",
    "nonnegative_kernels_are",
    "algebra_is_pointwise",
    "seatings_are_as_likely_as_defined",
    "mixture_fits_with_the_dynamics",
]
