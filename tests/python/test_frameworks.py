"""Arrays of PyTorch and JAX."""

import numpy as np
import pytest

import heddle

TEXT = """fn @main(%x: f32[n,m], %k: i64[]) -> (%y: f32[n,m], %z: f32[m,n], %k: i64[]) {
  %y = add(%x, %x)
  %z = transpose(%x, perm=[1,0])
  return %y, %z, add(%k, 1)
}
"""
MOVED = "fn @main(%x: {0}[n,m]) -> (%y: {0}[m,n]) {{\n  %y = transpose(%x, perm=[1,0])\n  return %y\n}}\n"


def program(text=TEXT, **options):
    return heddle.compile(heddle.load(text.encode(), format="heddle"), threads=2, **options)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="JAX is not installed")


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1), (7, 5)])
def test_tensors_in_and_out(torch, shape):
    x = torch.arange(shape[0] * shape[1], dtype=torch.float32).reshape(shape)
    y, z, k = program()(x, 3)
    assert all(isinstance(r, torch.Tensor) for r in (y, z, k))
    assert torch.equal(y, x + x) and torch.equal(z, x.T) and k.item() == 4
    results = program().run({"x": x, "k": torch.tensor(3)})
    assert torch.equal(results["y"], y) and results["k"].dtype == torch.int64


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[::2, 1:], lambda x: x.expand(2, 4, 6)[1], lambda x: x.flip(0), lambda x: x[:0],
])
def test_views_of_tensors(torch, view):
    x = view(torch.arange(24, dtype=torch.float32).reshape(4, 6))
    assert torch.equal(program()(x, 0)[0], x + x)


def test_tensors_are_not_copied(torch):
    p, x = program("fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  %y = add(%x, %x)\n  return %y\n}\n"), torch.ones(1 << 20)
    y = p(x)
    assert y.data_ptr() % 64 == 0 and y[-1] == 2
    address = y.data_ptr()
    del y
    # The program's own memory, used again.
    assert any(p(x).data_ptr() == address for _ in range(4))
    out = torch.empty(1 << 20)
    assert p.run({"x": x}, out={"y": out})["y"] is out and bool((out == 2).all())


def test_views_that_change_elements(torch):
    """Tensors whose elements in memory are not their elements."""
    x = torch.complex(torch.arange(6.0), torch.arange(6.0) + 1).conj().reshape(2, 3)
    assert x.imag.is_neg() and x.is_conj()
    assert torch.equal(program()(x.imag, torch.tensor(0))[0], x.imag + x.imag)
    assert torch.equal(program(MOVED.format("c64"))(x), x.T)
    dense = torch._neg_view(torch.ones(2, 3))
    assert dense.is_neg() and dense.is_contiguous()
    assert torch.equal(program()(dense, torch.tensor(0))[0], torch.full((2, 3), -2.0))


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (3, 0), (1, 1), (7, 5)])
def test_results_are_tensors_as_others(torch, shape):
    x = torch.rand(shape)
    y, z, k = program()(x, torch.tensor(1))
    assert (y.shape, z.shape, k.shape) == (x.shape, x.T.shape, ()) and all(r.is_contiguous() for r in (y, z, k))
    # They are written to, and share nothing.
    y += 1
    z.zero_()
    assert torch.equal(y, x + x + 1) and torch.equal(program()(x, torch.tensor(1))[1], x.T)
    assert torch.equal(program()(x=x, k=torch.tensor(1))[0], x + x) and torch.equal(program()(x, k=np.int64(1))[0], x + x)
    assert all(isinstance(r, torch.Tensor) for r in program()(x.numpy(), torch.tensor(1)))
    assert not any(isinstance(r, torch.Tensor) for r in program()(x.numpy(), np.array(1)))


def test_memory_of_results_is_given_back(torch):
    import resource

    p, x = program("fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  return add(%x, %x)\n}\n"), torch.ones(1 << 18)
    kept = [p(x) for _ in range(20)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(500):
        kept.append(p(x))
        assert kept.pop(0)[-1] == 2
    # 500 results of 1 MiB; pages are counted in KiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


def test_types_of_tensors(torch):
    pytest.importorskip("ml_dtypes")
    types = {
        "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "i64": torch.int64,
        "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64, "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
    }
    for name, dtype in types.items():
        x = (torch.arange(6) % 2).reshape(2, 3).to(dtype)
        y = program(MOVED.format(name))(x)
        assert y.dtype == dtype, name
        assert torch.equal(y.to(torch.complex64), x.to(torch.complex64).T), name


def test_gradients_are_left_behind(torch):
    x = torch.ones(2, 3, requires_grad=True)
    y, _, _ = program()(x, 0)
    assert not y.requires_grad and torch.equal(y, (x + x).detach())
    with pytest.raises(heddle.InputError, match="gradient"):
        program().run({"x": x, "k": 0}, out={"y": torch.zeros(2, 3, requires_grad=True)})


def test_tensors_that_can_not_be_given(torch):
    p = program()
    for wrong, part in (
        (torch.ones(2, 3, dtype=torch.float64), "f64"), (torch.ones(2, 3).to_sparse(), "sparse"), (torch.ones(2, 3, device="meta"), "meta"),
        (torch.ones(2), "x"),
    ):
        with pytest.raises(heddle.InputError, match=part):
            p(wrong, 0)


def test_arrays_of_jax(jax):
    x = jax.numpy.arange(6, dtype="float32").reshape(2, 3)
    y, z, k = program()(x, 3)
    assert all(isinstance(r, jax.Array) for r in (y, z, k))
    assert (y == x + x).all() and (z == x.T).all() and int(k) == 4
    assert (program()(jax.numpy.zeros((0, 3)), 0)[1]).shape == (3, 0)
    x = x.astype("bfloat16")
    y = program(MOVED.format("bf16"))(x)
    assert y.dtype == x.dtype and (y == x.T).all()
    with pytest.raises(heddle.InputError):
        program()(jax.numpy.arange(6, dtype="int32").reshape(2, 3), 0)


def test_what_else_has_dlpack(torch):
    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = np.ones((2, 3), np.float32)
    y, _, _ = program()(Foreign(x), 0)
    assert isinstance(y, np.ndarray) and (y == 2).all()
    assert (program()(Foreign(torch.ones(2, 3)), 0)[0] == 2).all()
