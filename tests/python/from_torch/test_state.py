"""What a function of plain Python leaves unassigned, asserts, changes in place and indexes, beside Python itself."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402

import heddle  # noqa: E402

N = torch.tensor
LINE = "test_state.py"


def check(function, *examples, device="interp"):
    """Runs beside Python: results, and arguments that are changed in place."""
    made = heddle.function(device=device)(function)
    flat = torch.utils._pytree.tree_leaves
    for example in examples:
        ours, theirs = ([a.clone() if isinstance(a, torch.Tensor) else a for a in example] for _ in range(2))
        found, wanted = made(*ours), function(*theirs)
        for a, b in zip([*flat(found), *ours], [*flat(wanted), *theirs], strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), check_dtype=False)
    return made


def fails(made, *args, kind=heddle.CheckFailed):
    with pytest.raises(kind) as caught:
        made(*args)
    assert LINE in (caught.value.place or ""), (caught.value, caught.value.place)
    return caught.value


# Variables


def one_branch(x):
    if x.sum() > 0:
        y = x * 2
    if x[0] > 0:
        y = x + 1
    return y


def empty_loop(x, n):
    for i in range(n):
        last = x[i] * i
    return last, i


def within(x, n):
    total = x[0] * 0
    for i in range(n):
        if x[i] > 0:
            held = x[i]
        else:
            total = total + held
    return total


def never_read(x):
    if x.sum() > 0:
        y = x * 2
        x = y + 1
    return x


def known_length(x):
    for row in x:
        last = row * 2
    return last


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_variables_that_one_branch_assigns(device):
    made = check(one_branch, (torch.ones(3),), (N([1.0, -5.0]),), (N([-1.0, 5.0, 0.0]),), device=device)
    error = fails(made, -torch.ones(3))
    assert "`y`" in str(error) and error.kind == "check"


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_variables_of_a_loop_without_turns(device):
    made = check(empty_loop, (torch.ones(3), N(2)), (torch.ones(5), N(5)), device=device)
    assert "`last`" in str(fails(made, torch.ones(3), N(0)))
    assert "`last`" in str(fails(made, torch.ones(3), N(-4)))


def test_variables_of_an_earlier_iteration():
    made = check(within, (N([1.0, -1.0, 2.0, -3.0, -4.0]), N(5)), (torch.ones(2), N(0)))
    assert "`held`" in str(fails(made, N([-1.0, 1.0]), N(2)))


def test_variables_that_nobody_reads_are_no_fault():
    check(never_read, (torch.ones(2),), (-torch.ones(2),))


def test_a_loop_of_known_length_makes_a_turn():
    made = check(known_length, (torch.ones(3, 2),), (torch.arange(10.0).reshape(5, 2),))
    statements = made.compile(torch.ones(3, 2)).source("ir").splitlines()
    # A check is the word behind `=` or at the start: the files of positions may have any name.
    assert not [s for s in statements if s.split(" = ")[-1].lstrip().startswith("check")]


def test_reads_that_surely_fail_are_errors_of_tracing():
    def f(x):
        if x.sum() > 0:
            x = x * 2
        return y  # noqa: F821

    def g(x):
        if x.sum() > 0:
            y = x
        else:
            z = x
            del z
        return z

    with pytest.raises((NameError, heddle.Error)):
        heddle.function(device="interp")(f)(torch.ones(2))
    with pytest.raises((NameError, heddle.Error)):
        heddle.function(device="interp")(g)(torch.ones(2))


# Assertions


def asserts(x, n):
    assert x.sum() > 0, "the sum is not positive"
    total = 0
    for i in range(n):
        assert x[i] > 0
        if x[i] > 2:
            assert n < 3, f"{n} is too many"
            total += 1
    return total


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_assertions(device):
    made = check(asserts, (torch.ones(3), N(3)), (N([1.0, 3.0, -1.0]), N(2)), device=device)
    assert "the sum is not positive" in str(fails(made, -torch.ones(2), N(0)))
    error = fails(made, N([1.0, -1.0, 5.0]), N(2))
    assert "assert x[i] > 0" in str(error) and isinstance(error, AssertionError)
    assert "too many" in str(fails(made, N([3.0, 1.0, 1.0]), N(3)))


@heddle.function(device="interp")
def down(n):
    assert n < 5, "too deep"
    if n == 0:
        return n
    return down(n - 1) + 1


def test_assertions_in_recursion():
    assert int(down(N(4))) == 4
    assert "too deep" in str(fails(down, N(5)))


def test_assertions_that_nothing_depends_on():
    def f(x):
        for row in x:
            assert row.sum() > 0
        return x * 2

    made = check(f, (torch.ones(3, 2),))
    fails(made, -torch.ones(3, 2))


def test_assertions_of_python():
    def f(x):
        assert x.shape[0] != 3, "three"
        return x

    made = heddle.function(device="interp")(f)
    made(torch.ones(2))
    with pytest.raises(AssertionError, match="three"):
        made(torch.ones(3))


# Changes in place


def fills(x, n):
    for i in range(n):
        x[i] = x[i - 1] + 1
    return x.sum()


def adds(x, y):
    x += y
    if y.sum() > 0:
        x *= 2
        x[0] = 7
    return x


def views(x):
    row = x[0]
    row += 1
    for r in range(2):
        row[r] = row[r] * 3
    return x, row


def twice(x):
    y = x + 1
    z = y
    for row in x:
        y += row
    return z, y


def test_arguments_are_changed_in_place():
    check(fills, (torch.zeros(5), N(4)), (torch.ones(3), N(0)))
    check(adds, (torch.ones(3), torch.ones(3)), (torch.ones(3), -torch.ones(3)))
    check(views, (torch.ones(3, 2),))
    check(twice, (torch.ones(3),), (torch.arange(5.0),))


def test_arguments_are_changed_in_place_compiled():
    check(fills, (torch.zeros(5), N(4)), device="cpu")
    check(adds, (torch.ones(3), torch.ones(3)), device="cpu")


def test_what_is_returned_is_the_argument():
    made = heddle.function(device="interp")(adds)
    x = torch.ones(3)
    assert made(x, torch.ones(3)) is x and x.tolist() == [7, 4, 4]
    array = np.ones(3, np.float32)
    made(array, np.ones(3, np.float32))
    assert array.tolist() == [7, 4, 4]


@heddle.function(device="interp")
def push(stack, top, value):
    if value > 0:
        stack[top] = value
    return top + 1


def pushes(stack, value):
    top = push(stack, torch.zeros((), dtype=torch.int64), value)
    top = push(stack, top, value - 2)
    return push(stack, top, value + 1), stack.sum()


def test_calls_change_their_arguments():
    with heddle.eager():
        wanted = [torch.zeros(6), torch.zeros(6)]
        for stack, value in zip(wanted, (3.0, 1.0)):
            pushes(stack, N(value))
    made = heddle.function(device="interp")(pushes)
    for stack, value in zip(wanted, (3.0, 1.0)):
        ours = torch.zeros(6)
        made(ours, N(value))
        assert ours.tolist() == stack.tolist()


def test_a_call_in_a_branch_that_changes_its_argument_is_refused():
    def f(stack, value):
        if value > 0:
            push(stack, torch.zeros((), dtype=torch.int64), value)
        return value

    fails(heddle.function(device="interp")(f), torch.zeros(2), N(1.0), kind=heddle.Unsupported)


def test_arguments_that_share_memory_are_refused():
    made = heddle.function(device="interp")(adds)
    x = torch.ones(4)
    with pytest.raises(heddle.InputError, match="share"):
        made(x[:3], x[1:])
    made(x[:2], x[2:])
    assert x.tolist() == [7, 4, 1, 1]


def test_arguments_of_an_operator_are_changed_in_place():
    made = heddle.function(device="interp")(adds)
    x = torch.ones(3)
    torch.compile(lambda x, y: made(x, y) * 1, backend="aot_eager", fullgraph=True)(x, torch.ones(3))
    assert x.tolist() == [7, 4, 4]


# Lists


def picks(x, i):
    return [x, x * 2, x - 1][i]


def numbers(x, i):
    return x * (2, 3, 5)[i]


def shapes(x, i):
    return [x, torch.cat([x, x]), x[:1]][i]


def trees(x, i):
    a, b = [(x, 1), (x * 2, 2)][i]
    return a * b


def test_lists_at_an_index_of_the_run():
    for i in (0, 1, 2, -1, -3):
        check(picks, (torch.ones(3), N(i)))
        check(numbers, (torch.ones(3), N(i)))
        check(shapes, (torch.arange(3.0), N(i)))
    check(trees, (torch.ones(3), N(0)), (torch.ones(3), N(-1)))
    assert "out of range" in str(fails(heddle.function(device="interp")(shapes), torch.ones(3), N(3)))
    fails(heddle.function(device="interp")(picks), torch.ones(3), N(3), kind=heddle.Error)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x, i):
        return self.experts[i](x)


def test_modules_at_an_index_of_the_run():
    torch.manual_seed(0)
    model = Experts()
    program = heddle.compile(model, torch.ones(3), N(0), device="interp")
    with torch.no_grad():
        for i in range(3):
            torch.testing.assert_close(program(torch.ones(3), N(i)), model.experts[i](torch.ones(3)))
