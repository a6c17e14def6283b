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

__all__ = [
    "algebra_is_pointwise",
    "centers_follow_the_data",
    "check_dynamics",
    "check_family",
    "check_knows_its_width",
    "check_refuses_with_the_row",
    "check_takes_samples",
    "durations_are_written_in",
    "dynamics_checks",
    "dynamics_is_a_value",
    "engine_learns_a_stream",
    "expected_log_likelihood_is_a_gradient",
    "expected_log_likelihood_is_below_log_predictive",
    "family_checks",
    "input_is_not_modified",
    "is_a_frozen_dataclass",
    "is_equal_by_value",
    "is_known",
    "kernel_is_the_sum_of_its_modes",
    "kernel_starts_at_one",
    "log_bayes_factor_is_a_difference_of_log_partitions",
    "log_marginal_is_a_chain_of_predictives",
    "log_partition_of_an_empty_table_is_zero",
    "log_predictive_is_a_difference_of_log_partitions",
    "mixture_fits",
    "mixture_fits_with_the_dynamics",
    "modes_never_grow",
    "nonnegative_kernels_are",
    "predictive_of_a_table_is_that_of_the_sampler",
    "predictive_of_an_empty_table_is_that_of_the_sampler",
    "predictive_of_part_of_a_row_is_normalised",
    "proposals_are_known",
    "rows_do_not_depend_on_each_other",
    "safe_norm_is_safe",
    "seatings_are_as_likely_as_defined",
    "seeds_repeat_the_draws",
    "shapes_are_as_documented",
    "sharpen_keeps_strangers_apart",
    "statistics_start_with_one",
    "terms_add_up_to_log_predictive",
    "time_passes_in_steps",
    "widen_is_to_add_zeros",
]
