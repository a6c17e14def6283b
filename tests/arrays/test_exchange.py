"""Arrays of other libraries as input: anything with __array__, or with __dlpack__ as tensors have."""

import numpy as np
import pytest

from dyncrp import DynamicalMixture, Exponential, Gaussian, Multinomial

X = np.array([[0.0, 0.1], [9.0, 9.2], [0.2, 0.0], [9.1, 9.0]])


class OnlyArray:
    """It is read by ``__array__``."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


class OnlyDLPack:
    """It is read by DLPack, and has nothing else."""

    def __init__(self, values):
        values = np.asarray(values)
        self.__dlpack__, self.__dlpack_device__ = values.__dlpack__, values.__dlpack_device__


class Tensor(OnlyArray):
    """It has both, as a tensor of PyTorch has; it may be on another device, or require a gradient."""

    def __init__(self, values, device="cpu", requires_grad=False):
        super().__init__(values)
        self.device, self.requires_grad, self.shape = device, requires_grad, np.shape(values)
        self.ndim = len(self.shape)

    def __array__(self, dtype=None, copy=None):
        if self.device != "cpu":
            raise TypeError("can't convert device type tensor to numpy")
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad")
        return np.asarray(self.values, dtype=dtype)

    def __dlpack__(self, **options):
        raise BufferError("not this way")


KINDS = pytest.mark.parametrize("kind", [OnlyArray, OnlyDLPack, Tensor])


def model():
    return DynamicalMixture(Gaussian(1.0, 100.0), Exponential(20.0))


@KINDS
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_the_same_as_arrays(kind, dtype):
    rows, times = X.astype(dtype), np.array([0.0, 1.0, 1.5, 4.0])
    expected = model().fit(rows, times=times)
    found = model().fit(kind(rows), times=kind(times))
    assert found.to_bytes() == expected.to_bytes()
    assert found.predict(kind(rows)).tolist() == [0, 1, 0, 1]
    assert found.score_samples(kind(rows), times=kind(np.full(4, 5.0))).shape == (4,)
    labels = np.array([0, 1, 0, 1])
    assert found.log_joint(kind(rows), kind(labels), kind(times)) == expected.log_joint(rows, labels, times)


@KINDS
def test_one_row_labels_and_counts(kind):
    found = model()
    assert [found.learn_one(kind(x)) for x in X] == [0, 1, 0, 1]
    assert found.partial_fit(kind(X[:2]), labels=kind(np.array([1, 1]))).labels_.tolist() == [1, 1]
    counts = np.array([[2.0, 0.0], [0.0, 3.0]])
    words = DynamicalMixture(Multinomial(1.0))
    assert words.fit(kind(counts)).labels_.tolist() == words.fit(counts).labels_.tolist()


@KINDS
def test_weights_and_what_one_asks_about_rows(kind):
    weights = np.array([1.0, 2.0, 0.5, 3.0])
    found = model().fit(X, sample_weight=kind(weights))
    assert found.to_bytes() == model().fit(X, sample_weight=weights).to_bytes()
    labels = np.array([0, 1, 0, 1])
    assert found.resolve(kind(labels)).tolist() == found.clusters(2).labels(kind(labels)).tolist() == [0, 1, 0, 1]
    cells = found.predict_cells(kind(X), 1)
    assert cells.log_density(kind(X[:, 1])).tolist() == cells.log_density(X[:, 1]).tolist()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"device": "cuda:0"}, r"X is a Tensor that NumPy cannot read: it is on cuda:0; pass X.cpu\(\)"),
        ({"requires_grad": True}, r"it requires a gradient; pass X.detach\(\)"),
    ],
)
def test_tensors_that_cannot_be_read(more, message):
    found = model().fit(X)
    before = found.to_bytes()
    for call in (found.partial_fit, found.predict, lambda tensor: found.learn_one(Tensor(X[0], **more))):
        with pytest.raises(ValueError, match=message):
            call(Tensor(X, **more))
    with pytest.raises(ValueError, match="times is a Tensor that NumPy cannot read"):
        model().fit(X, times=Tensor(np.arange(4.0), **more))
    assert found.to_bytes() == before


def test_what_the_library_says_otherwise():
    class Odd:
        def __dlpack__(self, **options):
            raise BufferError("a type of numbers that NumPy does not have")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(ValueError, match="X is a Odd that NumPy cannot read: a type of numbers"):
        model().fit(Odd())


def test_numbers_that_numpy_does_not_have():
    class Half(Tensor):
        dtype = "torch.bfloat16"

        def __array__(self, dtype=None, copy=None):
            raise TypeError("Got unsupported ScalarType BFloat16")

        def float(self):
            return self.values

    with pytest.raises(ValueError, match=r"cannot read: NumPy has no torch.bfloat16; pass X.float\(\)"):
        model().fit(Half(X))
    assert model().fit(Half(X).float()).labels_.tolist() == [0, 1, 0, 1]


def test_real_tensors():
    torch = pytest.importorskip("torch")
    rows = torch.tensor(X, dtype=torch.float32)
    found = model().fit(rows, times=torch.arange(4))
    assert found.labels_.tolist() == [0, 1, 0, 1]
    assert found.learn_one(rows[0], 5.0) == 0
    with pytest.raises(ValueError, match=r"pass X.detach\(\)"):
        found.predict(rows.requires_grad_())
    with pytest.raises(ValueError, match="it is on meta"):
        found.predict(rows.detach().to("meta"))
    with pytest.raises(ValueError, match=r"NumPy has no torch.bfloat16; pass X.float\(\)"):
        found.predict(rows.detach().to(torch.bfloat16))
    assert found.predict(rows.detach().to(torch.bfloat16).float()).tolist() == [0, 1, 0, 1]
