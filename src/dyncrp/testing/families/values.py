"""A family is a value: frozen, equal by value, and known."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np

from dyncrp.families import Family, protocols
from dyncrp.testing.asserts import copies, require, require_equal_by_value
from dyncrp.testing.families.material import FamilyCheck, sample_rows


def is_a_frozen_dataclass(family: Family, n_features: int) -> None:
    """Its fields cannot be set, nor written into."""
    require(is_dataclass(family), "it is not a dataclass")
    for field in fields(family):
        try:
            setattr(family, field.name, getattr(family, field.name))
        except FrozenInstanceError:
            pass
        else:
            raise AssertionError(f"its field {field.name} can be set: decorate the class with dataclass(frozen=True)")
        value = getattr(family, field.name)
        if isinstance(value, np.ndarray):
            require(not value.flags.writeable, f"its array {field.name} can be written into; see scalar_or_vector")


def is_equal_by_value(family: Family, n_features: int) -> None:
    """Copies, deep copies and pickles are equal to it and hash alike; it is equal to nothing else."""
    require_equal_by_value(family)
    require(family != "a family", "it is equal to a string")
    for name, twin in {"replace": replace(family), **copies(family)}.items():
        for field in fields(twin):
            value = getattr(twin, field.name)
            writable = isinstance(value, np.ndarray) and value.flags.writeable
            require(not writable, f"the array {field.name} can be written into after {name}")


def is_known(family: Family, n_features: int) -> None:
    """Every hyperparameter has a value, for as many features as asked for, so that it proposes itself alone."""
    require(family.known, "it has unknown hyperparameters: give a value for each")
    family.require_known()
    require(family.width in (None, n_features), f"its width is {family.width}, and n_features is {n_features}")
    X = sample_rows(family, n_features)
    require(protocols.proposals(family, X) == [family], "its proposals are not [family], though it is known")
    for view in protocols.views(family, X):
        require(view.lift(family) == family, "a view lifts it to another family, though it is known")


CHECKS: tuple[FamilyCheck, ...] = (
    is_a_frozen_dataclass,
    is_equal_by_value,
    is_known,
)
