"""scikit-learn's own checks, with no arguments and no exceptions."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dyncrp import DynamicalMixture


@parametrize_with_checks([DynamicalMixture()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
