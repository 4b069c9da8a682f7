//! Loops over the rows of arrays, which go level by level for all instances.

use heddle_interp::run_counted;
use heddle_ir::{Datum, text};
use heddle_opt::{BatchOptions, batch_instances_with};

use super::Form::{self, Ragged, Shared, Stacked};
use super::{f32s, gathered, i64s, options};
use crate::common::Random;
use crate::common::many::compare_made;

/// Children of each vertex.
type Graph = Vec<Vec<i64>>;

/// The sum over all children, by a reduction.
const SUM: &str = "
fn @main(%x: f32[n], %children: i64[c], %offsets: i64[e]) -> (%h: f32[e]) {
  %n = squeeze(shape(%x), axes=[0])
  %z: f32[e] = broadcast(0.0, shape(%offsets))
  %h: f32[e] = loop %v trip %n carry (%s: f32[e] = %z) {
    %from = unsqueeze(gather(%offsets, %v, axis=0), axes=[0])
    %to = unsqueeze(gather(%offsets, add(%v, 1), axis=0), axes=[0])
    %kids = slice(%children, %from, %to, [1], axes=[0])
    %below = reduce(gather(%s, %kids, axis=0), kind=sum, axes=[0], keep=false)
    %y = tanh(add(%below, gather(%x, %v, axis=0)))
    continue carry update_slice(%s, unsqueeze(%y, axes=[0]), unsqueeze(%v, axes=[0]))
  }
  return %h
}";

/// A fold over the children, and rows of two elements in two arrays.
const FOLD: &str = "
fn @main(%x: f32[n], %children: i64[c], %offsets: i64[e]) -> (%h: f32[e,2], %y: f32[e]) {
  %n = squeeze(shape(%x), axes=[0])
  %z: f32[e,2] = broadcast(0.5, concat(shape(%offsets), [2], axis=0))
  %o: f32[e] = broadcast(0.0, shape(%offsets))
  %h: f32[e,2], %y: f32[e] = loop %v trip %n carry (%s: f32[e,2] = %z, %p: f32[e] = %o) {
    %from = gather(%offsets, %v, axis=0)
    %to = gather(%offsets, add(%v, 1), axis=0)
    %kids = slice(%children, unsqueeze(%from, axes=[0]), unsqueeze(%to, axes=[0]), [1], axes=[0])
    %states = gather(%s, %kids, axis=0)
    %first = gather(%x, %v, axis=0)
    %all: f32[2] = loop %k trip sub(%to, %from) carry (%a: f32[2] = broadcast(%first, [2])) {
      continue carry tanh(add(mul(%a, 1.25), gather(%states, %k, axis=0)))
    }
    %row = concat(unsqueeze(%v, axes=[0]), [0], axis=0)
    %s2 = update_slice(%s, unsqueeze(%all, axes=[0]), %row)
    %one = mul(gather(%all, 1, axis=0), 3.0)
    continue carry %s2, update_slice(%p, unsqueeze(%one, axes=[0]), unsqueeze(%v, axes=[0]))
  }
  return %h, %y
}";

/// Any row of all, also later ones and those that are never written.
const ANY: &str = "
fn @main(%x: f32[n], %next: i64[n], %pair: i64[n,2], %h0: f32[m]) -> (%h: f32[m]) {
  %n = squeeze(shape(%x), axes=[0])
  %h: f32[m] = loop %v trip %n carry (%s: f32[m] = %h0) {
    %one = gather(%s, gather(%next, %v, axis=0), axis=0)
    %two = gather(%s, gather(%pair, %v, axis=0), axis=0)
    %both = add(%one, reduce(%two, kind=sum, axes=[0], keep=false))
    %y = tanh(add(mul(%both, 0.5), gather(%x, %v, axis=0)))
    continue carry update_slice(%s, unsqueeze(%y, axes=[0]), unsqueeze(%v, axes=[0]))
  }
  return %h
}";

fn inputs(graph: &Graph, random: &mut Random) -> Vec<Datum> {
    let x: Vec<f32> = graph
        .iter()
        .map(|_| random.below(64) as f32 / 32.0 - 1.0)
        .collect();
    let mut offsets = vec![0];
    for kids in graph {
        offsets.push(offsets[offsets.len() - 1] + kids.len() as i64);
    }
    vec![f32s(&x), i64s(&graph.concat()), i64s(&offsets)]
}

/// A graph of so many vertices, whose children come before them, and may be shared or the same twice.
fn drawn(size: usize, random: &mut Random) -> Graph {
    let kids = |v: usize, random: &mut Random| {
        let most = if v == 0 { 0 } else { random.below(4) };
        (0..most).map(|_| random.below(v as u64) as i64).collect()
    };
    (0..size).map(|v| kids(v, random)).collect()
}

fn height(graph: &Graph) -> u64 {
    let mut heights: Vec<u64> = vec![];
    for kids in graph {
        let below = kids.iter().map(|&k| heights[k as usize]).max();
        heights.push(below.map_or(1, |h| h + 1));
    }
    heights.into_iter().max().unwrap_or(0)
}

fn chain(size: i64) -> Graph {
    (0..size)
        .map(|v| (0..v).skip((v - 1).max(0) as usize).collect())
        .collect()
}

/// By levels, though there are no products in these loops.
const LEVELS: BatchOptions = BatchOptions {
    max_frames: None,
    prefers_frames: false,
    prefers_levels: true,
};

/// Steps and activations of the first loop, in a run of all, by levels.
fn steps(program: &str, forms: &[Form], all: &[Vec<Datum>]) -> (u64, u64) {
    steps_with(program, forms, all, LEVELS)
}

fn steps_with(
    program: &str,
    forms: &[Form],
    all: &[Vec<Datum>],
    choices: BatchOptions,
) -> (u64, u64) {
    let module = text::parse(program).unwrap_or_else(|e| panic!("{e}"));
    let batch = compare_made(&module, forms, all, choices).expect("each instance runs");
    let left: Vec<_> = batch
        .one_by_one
        .iter()
        .map(|o| (o.op, &o.refusal))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let block = batch
        .blocks
        .iter()
        .find(|b| b.block.op == "loop")
        .expect("a loop");
    let watched = [(block.within, block.size)];
    let given = gathered(forms, all, &all[0]);
    let counts = run_counted(&batch.module, &given, &options(), &watched).expect("runs");
    let tally = counts.values.get(&watched[0]).copied().unwrap_or_default();
    (tally.steps, tally.rows)
}

#[test]
fn graphs_go_level_by_level_together() {
    let mut random = Random(5);
    let sizes = [7, 0, 1, 23, 2, 40, 0, 3];
    let mut graphs: Vec<Graph> = sizes.iter().map(|&n| drawn(n, &mut random)).collect();
    graphs.push(chain(17));
    graphs.extend((0..55).map(|k| drawn(k % 6, &mut random)));
    assert_eq!(graphs.len(), 64);
    let all: Vec<_> = graphs.iter().map(|g| inputs(g, &mut random)).collect();
    let highest = graphs.iter().map(height).max().expect("graphs");
    let vertices: u64 = graphs.iter().map(|g| g.len() as u64).sum();
    for program in [SUM, FOLD] {
        for count in [64, 9, 3, 1] {
            steps(program, &[Ragged; 3], &all[..count]);
        }
        assert_eq!(steps(program, &[Ragged; 3], &all), (highest, vertices));
        // Without a vertex there is no step.
        assert_eq!(steps(program, &[Ragged; 3], &all[1..2]), (0, 0));
    }
}

#[test]
fn one_graph_for_all() {
    let mut random = Random(9);
    let graph = drawn(19, &mut random);
    let first = inputs(&graph, &mut random);
    let with = |x: Datum| vec![x, first[1].clone(), first[2].clone()];
    let all: Vec<_> = (0..5)
        .map(|_| with(inputs(&graph, &mut random)[0].clone()))
        .collect();
    for program in [SUM, FOLD] {
        let found = steps(program, &[Stacked, Shared, Shared], &all);
        assert_eq!(found, (height(&graph), 5 * 19));
    }
}

#[test]
fn rows_are_read_before_they_are_written() {
    let mut random = Random(11);
    for _ in 0..20 {
        let all: Vec<_> = (0..6)
            .map(|k| {
                let n = [0, 1, 2, 9, 30, 5][k];
                let rows = n as u64 + 1 + random.below(3);
                let any = |random: &mut Random| random.below(2 * rows) as i64 - rows as i64;
                let x: Vec<f32> = (0..n).map(|_| random.below(64) as f32 / 32.0).collect();
                let h: Vec<f32> = (0..rows).map(|_| random.below(64) as f32 / 32.0).collect();
                let next: Vec<i64> = (0..n).map(|_| any(&mut random)).collect();
                let pair: Vec<i64> = (0..2 * n).map(|_| any(&mut random)).collect();
                let pair = heddle_ir::Tensor::from_slice(vec![n, 2], &pair);
                vec![f32s(&x), i64s(&next), Datum::Tensor(pair), f32s(&h)]
            })
            .collect();
        let (taken, vertices) = steps(ANY, &[Ragged; 4], &all);
        assert!(vertices == 47 && taken < 25, "{taken} steps for {vertices}");
    }
}

#[test]
fn an_index_out_of_range_stops_the_run() {
    let module = text::parse(ANY).expect("parses");
    let made = |next: i64| {
        let pair = heddle_ir::Tensor::from_slice(vec![2, 2], &[0i64, 1, 1, 0]);
        vec![
            f32s(&[1.0, 2.0]),
            i64s(&[0, next]),
            Datum::Tensor(pair),
            f32s(&[0.0; 3]),
        ]
    };
    let all = [made(2), made(3)];
    let batch = batch_instances_with(&module, &[Ragged; 4], LEVELS).expect("a batch");
    let given = gathered(&[Ragged; 4], &all, &all[0]);
    heddle_interp::run(&batch.module, &given, &options()).expect_err("row 3 of 3");
    let given = gathered(&[Ragged; 4], &all[..1], &all[0]);
    heddle_interp::run(&batch.module, &given, &options()).expect("runs");
}

/// Steps of the loop over vertices with this body for 5 graphs of 19 vertices, and the greatest height.
fn steps_of(next: &str) -> (u64, u64) {
    let program = format!(
        "
fn @main(%x: f32[n], %below: i64[n], %w: f32[2,2]) -> (%h: f32[n,2]) {{
  %n = squeeze(shape(%x), axes=[0])
  %z: f32[n,2] = broadcast(0.0, concat(shape(%x), [2], axis=0))
  %h: f32[n,2] = loop %v trip %n carry (%s: f32[n,2] = %z) {{
    %own = reshape(gather(%x, %v, axis=0), [1,1])
    %one = unsqueeze(gather(%s, gather(%below, %v, axis=0), axis=0), axes=[0])
    %y = tanh(add({next}, %own))
    continue carry update_slice(%s, %y, concat(unsqueeze(%v, axes=[0]), [0], axis=0))
  }}
  return %h
}}"
    );
    let mut random = Random(3);
    let w = heddle_ir::Tensor::from_slice(vec![2, 2], &[0.5f32, -0.25, 0.75, 0.25]);
    let mut highest = 0;
    let mut made = || {
        let below: Vec<i64> = (0..19).map(|v| random.below(v.max(1)) as i64).collect();
        let mut heights = vec![0];
        (1..19).for_each(|v| heights.push(heights[below[v] as usize] + 1));
        highest = highest.max(heights.iter().max().copied().unwrap_or(0) + 1);
        let x: Vec<f32> = (0..19).map(|_| random.below(64) as f32 / 32.0).collect();
        vec![f32s(&x), i64s(&below), Datum::Tensor(w.clone())]
    };
    let all: Vec<_> = (0..5).map(|_| made()).collect();
    let forms = [Ragged, Ragged, Shared];
    let (steps, _) = steps_with(&program, &forms, &all, BatchOptions::default());
    (steps, highest)
}

#[test]
fn levels_are_found_where_there_are_products() {
    let (steps, highest) = steps_of("dot(%one, %w)");
    assert_eq!(steps, highest);
    // Without products the rows of an iteration are one step, in which nothing waits for an order.
    let (steps, _) = steps_of("mul(%one, 0.5)");
    assert_eq!(steps, 19);
}
