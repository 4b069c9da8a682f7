//! Random loops over sentences: loops in loops, early exits, stacks and lists.

use std::fmt::Write;

use heddle_ir::{Datum, Tensor};

use super::Random;
use super::many::{f32s, i64s};

/// A program in the making. All its values are `f32[2]`.
struct Program {
    random: Random,
    text: String,
    names: usize,
}

impl Program {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    fn line(&mut self, line: String) {
        writeln!(self.text, "{line}").expect("writes");
    }

    fn value(&mut self, expr: String) -> String {
        let name = self.fresh();
        self.line(format!("{name} = {expr}"));
        name
    }

    fn pick(&mut self, pool: &[String]) -> String {
        pool[self.below(pool.len())].clone()
    }

    fn step(&mut self, pool: &mut Vec<String>, place: &str, depth: usize) {
        let (a, b) = (self.pick(pool), self.pick(pool));
        let made = match self.below(8) {
            0 => self.value(format!("tanh(sub({a}, {b}))")),
            1 => self.value(format!(
                "squeeze(tanh(dot(unsqueeze({a}, axes=[0]), %w)), axes=[0])"
            )),
            2 => self.word(place),
            3 => self.value(format!("sub(mul({a}, 0.5), {b})")),
            4 if depth > 0 => self.branch(pool, place, depth),
            5 if depth > 0 => self.stack(pool, depth),
            6 if depth > 0 => self.list(pool, depth),
            _ if depth > 0 => self.repeat(pool, place, depth),
            _ => self.value(format!("max({a}, {b})")),
        };
        pool.push(made);
    }

    /// The vector of the word at this place.
    fn word(&mut self, place: &str) -> String {
        let word = self.value(format!("gather(%words, {place}, axis=0)"));
        self.value(format!("gather(%table, {word}, axis=0)"))
    }

    fn block(&mut self, pool: &[String], place: &str, depth: usize) -> (Vec<String>, String) {
        let mut own = pool.to_vec();
        for _ in 0..=self.below(3) {
            self.step(&mut own, place, depth);
        }
        let last = own[own.len() - 1].clone();
        (own, last)
    }

    fn test(&mut self, value: &str) -> String {
        // Sums come close to round limits, where rounding would decide.
        let limit = self.below(5) as f32 * 0.25 - 0.4505;
        format!("lt(reduce({value}, kind=sum, axes=[0], keep=false), {limit:?})")
    }

    fn branch(&mut self, pool: &[String], place: &str, depth: usize) -> String {
        let name = self.fresh();
        let of = self.pick(pool);
        let test = self.test(&of);
        self.line(format!("{name}: f32[2] = if {test} {{"));
        for end in ["} else {", "}"] {
            let (_, last) = self.block(pool, place, depth - 1);
            self.line(format!("yield {last}\n{end}"));
        }
        name
    }

    /// A trip count: the sentence's, a word's, or a constant.
    fn trips(&mut self, place: &str) -> String {
        match self.below(4) {
            0 => "%n".into(),
            1 => "2".into(),
            _ => format!("gather(%words, {place}, axis=0)"),
        }
    }

    fn repeat(&mut self, pool: &[String], place: &str, depth: usize) -> String {
        let [name, all, carried, i] = [(); 4].map(|()| self.fresh());
        let (init, trips) = (self.pick(pool), self.trips(place));
        let ends = self.below(2) == 0;
        let start = if ends { " while const true" } else { "" };
        let head = format!("loop {i} trip {trips}{start} carry ({carried}: f32[2] = {init}) {{");
        self.line(format!("{name}: f32[2], {all}: f32[?,2] = {head}"));
        let own = [pool, &[carried]].concat();
        let here = self.value(format!("rem({i}, max(%n, 1))"));
        let (own, last) = self.block(&own, &here, depth - 1);
        let (stacked, of) = (self.pick(&own), self.pick(&own));
        let test = match ends {
            true => format!("while {} ", self.test(&of)),
            false => String::new(),
        };
        self.line(format!(
            "continue {test}carry tanh({last}) stack {stacked}\n}}"
        ));
        match self.below(2) {
            0 => name,
            _ => {
                let sum = self.value(format!("reduce({all}, kind=sum, axes=[0], keep=false)"));
                self.value(format!("add({name}, {sum})"))
            }
        }
    }

    /// A loop over the words that pushes rows on a stack and takes some from it.
    fn stack(&mut self, pool: &[String], depth: usize) -> String {
        let [all, stack, i, kept] = [(); 4].map(|()| self.fresh());
        let init = self.pick(pool);
        self.line(format!(
            "{all}: f32[?,2] = loop {i} trip %n carry ({stack}: f32[?,2] = unsqueeze({init}, axes=[0])) {{"
        ));
        let top = self.value(format!("gather({stack}, -1, axis=0)"));
        let (_, item) = self.block(&[pool, std::slice::from_ref(&top)].concat(), &i, depth - 1);
        let test = self.test(&top);
        self.line(format!(
            "{kept}: f32[?,2] = if {test} {{\nyield slice({stack}, [0], [-1], [1], axes=[0])\n}} else {{\nyield {stack}\n}}"
        ));
        self.line(format!(
            "continue carry concat({kept}, unsqueeze(tanh({item}), axes=[0]), axis=0)\n}}"
        ));
        self.value(format!("gather({all}, -1, axis=0)"))
    }

    /// The same with a list.
    fn list(&mut self, pool: &[String], depth: usize) -> String {
        let [all, list, i, less] = [(); 4].map(|()| self.fresh());
        let init = self.pick(pool);
        self.line(format!(
            "{all}: seq<f32[2]> = loop {i} trip %n carry ({list}: seq<f32[2]> = seq_new({init}, elem=f32[2])) {{"
        ));
        let top = self.value(format!("seq_at({list}, -1)"));
        let (_, item) = self.block(&[pool, std::slice::from_ref(&top)].concat(), &i, depth - 1);
        let test = self.test(&top);
        self.line(format!(
            "{less}: seq<f32[2]> = if {test} {{\nyield seq_erase({list}, -1)\n}} else {{\nyield {list}\n}}"
        ));
        self.line(format!(
            "continue carry seq_insert({less}, tanh({item}), seq_len({less}))\n}}"
        ));
        self.value(format!("seq_at({all}, -1)"))
    }
}

/// A program over a sentence.
pub fn over_words(seed: u64) -> String {
    let mut program = Program {
        random: Random(seed),
        text: String::new(),
        names: 0,
    };
    let pool = ["%x".to_string()];
    let last = program.repeat(&pool, "-1", 3);
    let other = match seed % 3 {
        0 => program.stack(&pool, 2),
        1 => program.list(&pool, 2),
        _ => program.repeat(&pool, "0", 2),
    };
    let text = program.text;
    format!(
        "fn @main(%words: i64[n], %x: f32[2], %table: f32[4,2], %w: f32[2,2]) -> (%a: f32[2], %b: f32[2]) {{
%n = squeeze(shape(%words), axes=[0])
{text}return {last}, {other}
}}"
    )
}

/// This many sentences.
pub fn sentences(seed: u64, count: u64) -> Vec<Vec<Datum>> {
    let mut random = Random(seed);
    let mut floats =
        |n: usize| -> Vec<f32> { (0..n).map(|_| random.below(9) as f32 / 4.0 - 1.0).collect() };
    let w = Datum::Tensor(Tensor::from_slice(vec![2, 2], &floats(4)));
    let table = Datum::Tensor(Tensor::from_slice(vec![4, 2], &floats(8)));
    let with = |_| {
        let size = 1 + random.below(5);
        let words: Vec<i64> = (0..size).map(|_| random.below(4) as i64).collect();
        let x = [0, 1].map(|_| random.below(17) as f32 / 8.0 - 1.0);
        vec![i64s(&words), f32s(&x), table.clone(), w.clone()]
    };
    (0..count).map(with).collect()
}
