//! Kernels, tiles and operand layouts of contractions, on machines with kernels and without.

use crate::common::lowered_for;
use heddle_machine::Machine;
use heddle_schedule::select_kernels;
use heddle_uprogram::UProgram;
use heddle_uprogram::contract::{Access, Contract};
use heddle_uprogram::program::{Body, BufferKind, Share};
use heddle_uprogram::step::Step;

/// Each contraction of a program on a processor and on a GPU, one a line: its rows x columns, tile,
/// and layout of the second operand.
fn check(text: &str, cpu: &str, gpu: &str) {
    for (machine, expected) in [(Machine::reference_host(2), cpu), (Machine::h100(), gpu)] {
        let program = lowered_for(text, &machine);
        let found = selected(&program);
        assert_eq!(found.join("; "), expected, "{}", machine.name);
        let mut again = program.clone();
        select_kernels(&mut again, &machine);
        assert_eq!(selected(&again), found, "those that have kernels keep them");
        assert_eq!(again.buffers.iter().count(), program.buffers.iter().count());
    }
}

fn selected(program: &UProgram) -> Vec<String> {
    let running = program.running().into_iter();
    let ops = running.map(|id| &program.operators[id]);
    let lines = ops.filter_map(|op| {
        let Body::Contract(c) = &op.body else {
            return None;
        };
        let size = |local| {
            let axis = op.axes.iter().find(|a| a.0 == local);
            let size = axis.map(|a| program.pool.as_int(a.1));
            size.flatten().map_or("n".into(), |n| n.to_string())
        };
        let rows = c.rows.map_or("1".into(), size);
        let columns = size(c.columns);
        let outer = op.axes.len() - 1 - c.rows.is_some() as usize;
        let outer = if outer > 0 { "batches of " } else { "" };
        Some(format!(
            "{outer}{rows} x {columns} by {}, {}",
            c.tile,
            layout(program, c)
        ))
    });
    lines.collect()
}

fn layout(program: &UProgram, c: &Contract) -> String {
    let one = |e| program.pool.as_int(e) == Some(1);
    let lies = match c.b.access {
        Access::Strided { outer, .. } if one(outer) => "contiguous columns",
        Access::Strided { depth, .. } if one(depth) => "contiguous depth",
        Access::Strided { .. } => "strided",
        Access::Rows { .. } | Access::Windows { .. } => {
            panic!("only first operands have rows anywhere")
        }
        Access::Computed => "computed",
        Access::Panels { buffer, .. } => {
            let kind = &program.buffers[buffer].kind;
            assert!(matches!(kind, BufferKind::Packed(_)), "panels are packed");
            "constant panels"
        }
    };
    let own = c.own.map(|own| &program.buffers[own].kind);
    match own {
        Some(BufferKind::Own) => format!("{lies}, packed by each unit"),
        Some(kind) => panic!("{kind:?}"),
        None => lies.into(),
    }
}

#[test]
fn originals_of_packed_constants_stay_if_they_are_read() {
    let text = |also: &str| {
        format!(
            "fn @main(%x: f32[n,2], %i: i64[]) -> (%y: f32[n,3], %z: f32[3]) {{
               %w = const [[1, 2, 3], [4, 5, 6]]: f32[2,3]
               %y = dot(%x, %w)
               return %y, gather({also}, %i, axis=0)
             }}"
        )
    };
    let lengths = |also| {
        let program = lowered_for(&text(also), &Machine::reference_host(2));
        let constants = program
            .buffers
            .iter()
            .filter_map(|(_, data)| match &data.kind {
                BufferKind::Constant(tensor) => Some(tensor.len()),
                _ => None,
            });
        constants.collect::<Vec<_>>()
    };
    assert_eq!(lengths("%y"), [0]);
    assert_eq!(lengths("%w"), [6]);
}

#[test]
fn large_constants_that_are_only_gathered_from_are_tables() {
    let row = |r: usize| {
        (0..128)
            .map(|c| ((r + c) % 7).to_string())
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = (0..128)
        .map(|r| format!("[{}]", row(r).join(", ")))
        .collect();
    let kinds = |rows: &[String], result: &str| {
        let count = rows.len();
        let text = format!(
            "fn @main(%x: f32[128], %i: i64[n]) -> (%y: f32[n,128], %z: f32[..]) {{
               %w = const [{}]: f32[{count},128]
               %y = gather(%w, %i, axis=0)
               return %y, {result}
             }}",
            rows.join(", ")
        );
        let program = lowered_for(&text, &Machine::reference_host(2));
        let written = heddle_uprogram::text::print(&program);
        let read = heddle_uprogram::text::parse(&written).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(heddle_uprogram::text::print(&read), written);
        let kinds = read
            .buffers
            .iter()
            .filter_map(|(_, data)| match &data.kind {
                BufferKind::Constant(tensor) if tensor.len() > 8 => Some("constant"),
                BufferKind::Table(_) => Some("table"),
                BufferKind::Packed(_) => Some("packed"),
                _ => None,
            });
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(kinds(&rows, "%x"), ["table"]);
    // A product reads its own layout, other operators all elements in order.
    assert_eq!(kinds(&rows, "dot(%y, %w)"), ["table", "packed"]);
    assert_eq!(kinds(&rows, "add(%w, %x)"), ["constant"]);
    assert_eq!(kinds(&rows[..127], "%x"), ["constant"]);
}

#[test]
fn weights_are_packed_once() {
    let text = "fn @main(%x: f32[1,6], %y: f32[n,6]) -> (%a: f32[1,4], %b: f32[n,4]) {
           %w = const [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]]: f32[4,6]
           %t = transpose(%w, perm=[1,0])
           %a = dot(%x, %t)
           %b = dot(%y, %t)
           return %a, %b
         }";
    check(
        text,
        "1 x 4 by 16, constant panels; n x 4 by 16, constant panels",
        "1 x 4 by 1, contiguous depth; n x 4 by 1, contiguous depth",
    );
    let packed = |machine| {
        let program = lowered_for(text, &machine);
        let packed = program.buffers.iter().filter_map(|(_, b)| match &b.kind {
            BufferKind::Packed(panels) => Some(panels.size()),
            _ => None,
        });
        packed.collect::<Vec<_>>()
    };
    // Both read the same panels: six rows of one panel of 16 columns.
    assert_eq!(packed(Machine::reference_host(2)), [6 * 16 * 4]);
    assert_eq!(packed(Machine::h100()), []);
}

#[test]
fn a_single_row_reads_the_other_operand_where_it_lies() {
    check(
        "fn @main(%x: f32[12,1,64], %k: f32[12,64,64]) -> (%a: f32[12,1,64], %b: f32[12,1,64]) {
           %a = dot(%x, %k)
           %b = dot(%x, transpose(%k, perm=[0,2,1]))
           return %a, %b
         }",
        "batches of 1 x 64 by 16, contiguous columns; batches of 1 x 64 by 16, contiguous depth",
        "batches of 1 x 64 by 1, contiguous columns; batches of 1 x 64 by 1, contiguous depth",
    );
}

#[test]
fn many_rows_are_worth_packing() {
    check(
        "fn @main(%x: f32[12,64,64], %k: f32[12,64,64]) -> (%a: f32[12,64,64]) {
           %a = dot(%x, %k)
           return %a
         }",
        "batches of 64 x 64 by 16, contiguous columns, packed by each unit",
        "batches of 64 x 64 by 1, contiguous columns",
    );
}

#[test]
fn windows_are_computed_by_the_kernel() {
    check(
        "fn @main(%x: f32[1,8,9,9], %w: f32[16,8,3,3]) -> (%y: f32[1,16,9,9]) {
           %y = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           return %y
         }",
        "16 x 81 by 16, computed, packed by each unit",
        "16 x 81 by 1, computed",
    );
}

#[test]
fn windows_are_read_where_they_lie() {
    let text = "fn @main(%x: f32[1,8,9,9]) -> (%y: f32[1,16,9,9]) {
           %w = const splat 0.5: f32[16,8,3,3]
           %y = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           return %y
         }";
    let expected = "81 x 16 by 16, constant panels";
    check(text, expected, "16 x 81 by 1, computed");
    let program = lowered_for(text, &Machine::reference_host(2));
    let reads = |body: &Body| match body {
        Body::Contract(c) => matches!(c.a.access, Access::Windows { .. }),
        _ => false,
    };
    let mut operators = program.operators.iter();
    assert!(operators.any(|(_, op)| reads(&op.body)));
}

/// A convolution with this padding on all sides.
fn conv(x: &str, w: &str, pad: u8, groups: u8) -> String {
    format!(
        "conv({x}, {w}, [{pad}, {pad}, {pad}, {pad}], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups={groups})"
    )
}

#[test]
fn maps_between_convolutions_are_laid_out_without_copies() {
    let text = "fn @main(%x: f32[2,8,9,9], %b: f32[16,1,1]) -> (%y: f32[2,16,9,9]) {
           %w = const splat 0.5: f32[16,8,3,3]
           %v = const splat 0.5: f32[16,16,3,3]
           %c = conv(%x, %w, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           %a = max(add(%c, %b), 0)
           %d = conv(%a, %v, [1, 1, 1, 1], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups=1)
           %y = max(add(%d, %a), 0)
           return %y
         }";
    let program = lowered_for(text, &Machine::reference_host(2));
    let running = program.running();
    let names = running
        .iter()
        .map(|id| program.operators[*id].name.as_str());
    // The input has a copy, and the maps are epilogues.
    assert_eq!(names.filter(|name| *name == "channels last").count(), 1);
    assert_eq!(running.len(), 3);
}

/// Results that an output reads in turns, an element of each after the other, keep their channels outermost: its lines are then theirs.
#[test]
fn maps_that_take_turns_stay_as_they_are() {
    let text = format!(
        "fn @main(%x: f32[1,16,24,24]) -> (%y: f32[1,16,24,48]) {{
           %w = const splat 0.5: f32[16,16,3,3]
           %v = const splat 0.25: f32[16,16,3,3]
           %a = reshape({}, [1,16,24,24,1])
           %b = reshape({}, [1,16,24,24,1])
           return reshape(tanh(concat(%a, %b, axis=4)), [1,16,24,48])
         }}",
        conv("%x", "%w", 1, 1),
        conv("%x", "%v", 1, 1),
    );
    let machine = Machine::reference_host(2);
    let module = heddle_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut program = heddle_lower::lower(&module).unwrap_or_else(|e| panic!("{e}"));
    heddle_schedule::fuse(&mut program);
    heddle_schedule::simplify_indices(&mut program, &machine);
    select_kernels(&mut program, &machine);
    let running = program.running();
    let last = &program.operators[*running.last().expect("operators")];
    let Body::Map { value, .. } = last.body else {
        panic!("no map: {:?}", last.body);
    };
    // Along the axis outside of both, neighbours are neighbours in either map.
    let line = last.axes[last.axes.len() - 2].0;
    for (_, offset) in program.pool.loads([value]) {
        let step = Step::of(&program, offset, line);
        assert_eq!(step.and_then(|step| step.as_int()), Some(1));
    }
}

#[test]
fn one_by_one_convolutions_read_the_places_of_laid_out_maps() {
    let text = format!(
        "fn @main(%x: f32[2,8,9,9]) -> (%y: f32[2,16,9,9]) {{
           %w = const splat 0.5: f32[16,8,3,3]
           %u = const splat 0.5: f32[512,16,1,1]
           %v = const splat 0.5: f32[16,512,5,5]
           %a = max({}, 0)
           %b = tanh({})
           %y = add({}, %a)
           return %y
         }}",
        conv("%x", "%w", 1, 1),
        conv("%a", "%u", 0, 1),
        conv("%b", "%v", 2, 1)
    );
    // Places are rows; those of 512 channels lie a line of the cache further apart.
    let expected = "batches of 81 x 16 by 16, constant panels; batches of 81 x 512 by 16, constant panels; \
                    batches of 81 x 16 by 16, constant panels";
    let program = lowered_for(&text, &Machine::reference_host(2));
    assert_eq!(selected(&program).join("; "), expected);
    let scratch = program.buffers.iter().filter_map(|(_, data)| {
        let len = program.pool.as_int(data.len).filter(|len| *len > 0)?;
        matches!(data.kind, BufferKind::Scratch).then_some(len)
    });
    let lens: Vec<i64> = scratch.collect();
    assert_eq!(lens, [2 * 16 * 81, 2 * 528 * 81, 2 * 8 * 81]);
    // The input is no map of the program: it is packed, not copied.
    let alone = format!(
        "fn @main(%x: f32[2,16,9,9]) -> (%y: f32[2,512,9,9]) {{
           %u = const splat 0.5: f32[512,16,1,1]
           %y = {}
           return %y
         }}",
        conv("%x", "%u", 0, 1)
    );
    let expected = "batches of 512 x 81 by 16, contiguous columns, packed by each unit";
    let gpu = "batches of 512 x 81 by 1, contiguous columns";
    check(&alone, expected, gpu);
}

/// A product would read its places, but then the sums over windows before it would take their elements one by one.
#[test]
fn maps_of_sums_along_lines_stay_as_they_are() {
    let text = format!(
        "fn @main(%x: f32[1,16,24,24]) -> (%y: f32[1,16,24,24]) {{
           %u = const splat 0.5: f32[64,16,1,1]
           %w = const splat 0.5: f32[64,4,3,3]
           %v = const splat 0.5: f32[16,64,1,1]
           %a = max({}, 0)
           %b = max({}, 0)
           %y = {}
           return %y
         }}",
        conv("%x", "%u", 0, 1),
        conv("%a", "%w", 1, 16),
        conv("%b", "%v", 0, 1)
    );
    let program = lowered_for(&text, &Machine::reference_host(2));
    let expected = "64 x 576 by 16, contiguous columns, packed by each unit; \
                    16 x 576 by 16, contiguous columns, packed by each unit";
    assert_eq!(selected(&program).join("; "), expected);
}

/// The first layers of a network: a convolution, and a pool of its map with padding.
#[test]
fn pools_go_along_the_elements_of_their_map() {
    for channels in [16, 64] {
        let text = format!(
            "fn @main(%x: f32[1,3,64,64]) -> (%y: f32[1,{channels},16,16]) {{
               %w = const splat 0.5: f32[{channels},3,7,7]
               %c = conv(%x, %w, [3, 3, 3, 3], strides=[2,2], dilations=[1,1], input_dilations=[1,1], groups=1)
               %a = max(%c, 0)
               %y = window(%a, [1, 1, 0, 0], kind=max, window=[3, 3], strides=[2, 2], dilations=[1, 1])
               return %y
             }}"
        );
        let program = lowered_for(&text, &Machine::reference_host(2));
        let running = program.running();
        let reductions = running
            .iter()
            .map(|id| &program.operators[*id])
            .filter(|op| match &op.body {
                Body::Fold { .. } => true,
                Body::Chain(chain) => chain.reduction().is_some(),
                _ => false,
            });
        let mut found = 0;
        for op in reductions {
            let along = op.axes.last().expect("an axis").0;
            let exprs = match &op.body {
                Body::Chain(chain) => chain.reduction().expect("one").exprs().to_vec(),
                body => body.exprs().to_vec(),
            };
            for (buffer, offset) in program.pool.loads(exprs) {
                let step = Step::of(&program, offset, along);
                assert_eq!(step, Some(Step::by(1)), "{channels} channels, {buffer:?}");
                found += 1;
            }
        }
        assert_eq!(found, 1);
    }
}

#[test]
fn few_columns_become_rows() {
    check(
        "fn @main(%x: f32[100,8], %w: f32[8,3]) -> (%y: f32[100,3]) {
           %y = dot(%x, %w)
           return %y
         }",
        "3 x 100 by 16, contiguous depth, packed by each unit",
        "100 x 3 by 1, contiguous columns",
    );
}

#[test]
fn axes_that_weights_lack_are_rows() {
    let product = |epilogue: &str| {
        format!(
            "fn @main(%x: f32[3,n,8], %w: f32[8,20], %r: f32[3,n,20], %p: f32[n,20]) -> (%y: f32[3,n,20]) {{
               %d = dot(%x, %w)
               %y = {epilogue}
               return %y
             }}"
        )
    };
    let rows = "n x 20 by 16, contiguous columns, packed by each unit";
    for epilogue in ["add(%d, %r)", "add(%d, %p)", "tanh(%d)"] {
        let batches = "batches of n x 20 by 1, contiguous columns";
        check(&product(epilogue), rows, batches);
    }
    // Rows of the result lie elsewhere than the next matrix's.
    let batches = "batches of n x 20 by 16, contiguous columns, packed by each unit";
    let text = "fn @main(%x: f32[3,n,8], %w: f32[8,20]) -> (%y: f32[n,3,20]) {
           %y = transpose(tanh(dot(%x, %w)), perm=[1,0,2])
           return %y
         }";
    let found = selected(&lowered_for(text, &Machine::reference_host(2)));
    assert!(found == [batches] || found == [rows], "{found:?}");
}

#[test]
fn units_keep_their_part_of_the_weights() {
    let text = "fn @main(%x: f32[4,64]) -> (%y: f32[4,256]) {
           %w = const splat 2.0: f32[64,256]
           %y = dot(%x, %w)
           return %y
         }";
    let split = |machine| {
        let program = lowered_for(text, &machine);
        let id = program.running().into_iter().next().expect("a product");
        let Share::Split(split) = program.operators[id].share else {
            panic!("not split");
        };
        split.axis
    };
    assert_eq!(split(Machine::reference_host(2)), 1);
    assert_eq!(split(Machine::h100()), 0);
}
