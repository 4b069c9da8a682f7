"""Arrays on their way in and out: types, shapes, memory."""

import numpy as np
import pytest

import heddle

ml_dtypes = pytest.importorskip("ml_dtypes")

TYPES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool", "i4": "int4", "u4": "uint4",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def moved(dtype, **options):
    """A program that only moves its input: it is turned over."""
    text = f"fn @main(%x: {dtype}[n,m]) -> (%y: {dtype}[m,n]) {{\n  %y = transpose(%x, perm=[1,0])\n  return %y\n}}\n"
    return heddle.compile(heddle.load(text.encode(), format="heddle"), threads=2, **options)


@pytest.mark.parametrize("device", ["interp", "cpu"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (7, 5), (0, 4), (3, 0)])
def test_each_type_comes_back_as_it_went(dtype, shape, device):
    kind = numpy_type(TYPES[dtype])
    x = (np.arange(shape[0] * shape[1]) % 2).reshape(shape).astype(kind)
    y = moved(dtype, device=device)(x)
    assert y.dtype == kind and y.shape == shape[::-1]
    assert np.array_equal(y.astype(np.float64), x.T.astype(np.float64))


def test_negative_numbers_of_four_bits_keep_their_sign():
    x = np.array([[-8, 7, -1]], ml_dtypes.int4)
    assert moved("i4")(x).astype(int).ravel().tolist() == [-8, 7, -1]


@pytest.mark.parametrize("view", [
    lambda x: x[::2, ::-1], lambda x: x.T, lambda x: np.asfortranarray(x), lambda x: np.broadcast_to(x[:1], (4, 6)),
    lambda x: x.astype(">f4"), lambda x: x[1:, 1:],
])
def test_strides_and_byte_order_do_not_matter(view):
    x = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    assert np.array_equal(moved("f32")(x), x.T)


def test_read_only_arrays_are_inputs():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    x.flags.writeable = False
    assert np.array_equal(moved("f32")(x), x.T)


def test_numbers_and_lists_convert_if_they_are_exact():
    program = moved("f32")
    assert program([[1, 2], [3, 4]]).tolist() == [[1, 3], [2, 4]]
    assert program(x=[[0.5]]).dtype == np.float32
    for wrong in ([[0.1]], [[2**24 + 1]], [["a"]], None, [[1], [2, 3]]):
        with pytest.raises(heddle.InputError) as caught:
            program(wrong)
        assert "x" in str(caught.value)


def test_no_silent_casts():
    with pytest.raises(heddle.InputError) as caught:
        moved("f32")(np.zeros((2, 2)))
    assert "f64" in str(caught.value) and isinstance(caught.value, ValueError)


def test_text():
    text = "fn @main(%x: str[n]) -> (%y: str[n]) {\n  return %x\n}\n"
    for device in ("interp", "cpu"):
        program = heddle.compile(heddle.load(text.encode(), format="heddle"), device=device)
        y = program(np.array(["a", "", "ü"]))
        assert y.dtype == object and y.tolist() == ["a", "", "ü"]
        with pytest.raises(heddle.InputError):
            program(np.array([1, None], object))


def test_results_are_the_callers():
    text = "fn @main(%x: f32[n]) -> (%y: f32[n], %z: f32[2]) {\n  %z = const [1.0, 2.0]: f32[2]\n  return %x, %z\n}\n"
    for device in ("interp", "cpu"):
        program = heddle.compile(heddle.load(text.encode(), format="heddle"), device=device)
        x = np.ones(3, np.float32)
        y, z = program(x)
        y[:] = 5
        z[:] = 7
        assert x.tolist() == [1, 1, 1]
        again = program(x)
        assert again[0].tolist() == [1, 1, 1] and again[1].tolist() == [1, 2]


def test_a_large_array_is_not_copied():
    text = "fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  %y = add(%x, %x)\n  return %y\n}\n"
    program = heddle.compile(heddle.load(text.encode(), format="heddle"), threads=2)
    x = np.ones(1 << 20, np.float32)
    addresses = set()
    for _ in range(10):
        y = program(x)
        assert y[0] == 2 and y[-1] == 2 and y.flags.writeable and not y.flags.owndata
        addresses.add(y.ctypes.data)
        del y
    # The program's own buffers, of which a copy would have none's alignment.
    assert len(addresses) <= 2 and all(a % 64 == 0 for a in addresses)
    kept = [program(x) for _ in range(6)]
    assert len({y.ctypes.data for y in kept}) == 6
    y = kept[0]
    del program, kept
    assert (y == 2).all()


@pytest.mark.parametrize(("type", "values"), [
    ("i64", [[float("nan")]]), ("i8", [[float("nan")]]), ("bool", [[float("nan")]]), ("u64", [[-1]]), ("i64", [[2**63]]), ("u8", [[256]]),
    ("i8", [[-129]]), ("bool", [[2]]), ("i64", [[0.5]]), ("i64", [[float("inf")]]), ("u32", [[2**32]]),
])
def test_what_wraps_is_not_exact(type, values):
    with pytest.raises(heddle.InputError):
        moved(type)(values)


def test_nan_is_exact_in_floats():
    assert np.isnan(moved("f32")([[float("nan")]])).all()
    assert moved("u64")([[2**64 - 1]]).tolist() == [[2**64 - 1]]
    assert moved("i64")([[-(2**63)]]).tolist() == [[-(2**63)]]
