//! The networks of `tests/models/batching` that are written in the language.

use crate::common::{Random, compile, floats, i64s, model, run};
use heddle_ir::{Module, Tensor};

/// Small random weights of a program's inputs that are not given.
fn with_weights(module: &Module, given: Vec<(&'static str, Tensor)>) -> Vec<(String, Tensor)> {
    let random = &mut Random(11);
    let params = module.entry().sig.params.iter();
    let weights = params.filter(|(name, _)| given.iter().all(|(n, _)| n != name));
    let weights: Vec<_> = weights
        .map(|(name, ty)| {
            let dims = ty
                .as_tensor()
                .and_then(|t| t.shape.clone())
                .expect("an array");
            let shape: Vec<usize> = dims
                .iter()
                .map(|d| d.as_const().unwrap_or(20) as usize)
                .collect();
            (name.clone(), random.array(&shape, 0.1))
        })
        .collect();
    let given = given.into_iter().map(|(n, t)| (n.to_string(), t));
    given.chain(weights).collect()
}

fn run_all(module: &Module, inputs: &[(String, Tensor)]) -> Vec<Tensor> {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|(n, t)| (n.as_str(), t.clone()))
        .collect();
    run(module, &inputs)
}

#[test]
fn treelstm_is_the_one_in_the_text_form() {
    let words = [3, 7, 1, 0, 19];
    let (left, right) = ([-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3]);
    let own = compile(&model("treelstm.hl"));
    let inputs = with_weights(
        &own,
        vec![
            ("left", i64s(&left)),
            ("right", i64s(&right)),
            ("word", i64s(&words)),
        ],
    );
    let found = run_all(&own, &inputs);
    let text = heddle_ir::text::parse(&model("treelstm.heddle")).expect("parses");
    let want = run_all(&text, &inputs);
    for (found, want) in found.iter().zip(&want) {
        let pairs = floats(found).into_iter().zip(floats(want));
        let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-6, "{far}");
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn listing_1_is_one_loop_and_one_map() {
    let module = compile(&model("rnn.hl"));
    assert_eq!(module.functions.len(), 1);
    for n in [0, 3] {
        let inps = Random(5).array(&[n, 1, 256], 1.0);
        let inputs = with_weights(&module, vec![("inps", inps)]);
        let out = run_all(&module, &inputs);
        assert_eq!(out[0].shape(), [n, 1, 16]);
    }
}

/// Weights by name, and vectors' arithmetic in the models' plain form.
struct Plain(Vec<(String, Tensor)>);

impl Plain {
    fn get(&self, name: &str) -> Vec<f64> {
        let (_, found) = self.0.iter().find(|(n, _)| n == name).expect("an input");
        floats(found).iter().map(|x| f64::from(*x)).collect()
    }

    fn row(&self, name: &str, k: usize) -> Vec<f64> {
        self.get(name)[k * 256..(k + 1) * 256].to_vec()
    }

    /// `x @ w + b`.
    fn dense(&self, x: &[f64], w: &str, b: Option<&str>) -> Vec<f64> {
        let w = self.get(w);
        let n = w.len() / x.len();
        let mut y = b.map_or(vec![0.0; n], |b| self.get(b));
        for (i, x) in x.iter().enumerate() {
            y.iter_mut().zip(&w[i * n..]).for_each(|(y, w)| *y += x * w);
        }
        y
    }

    fn cell(&self, s: &str, x: &[f64], h: &[f64]) -> Vec<f64> {
        let z = self.dense(&[x, h].concat(), &format!("W{s}"), Some(&format!("b{s}")));
        z.iter().map(|z| z.tanh()).collect()
    }

    fn siblings(&self, xp: &[f64], hp: &[f64], depth: usize) -> (f64, Vec<f64>) {
        let sigmoid =
            |z: Vec<f64>| -> Vec<f64> { z.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect() };
        let (mut x, mut hf, mut count, mut total) = (xp.to_vec(), hp.to_vec(), 0.0, vec![0.0; 256]);
        let mut add = |n: f64, t: &[f64]| {
            count += n;
            total.iter_mut().zip(t).for_each(|(a, b)| *a += b);
            (count, total.clone())
        };
        for k in 0.. {
            let ha = sigmoid(self.dense(&[xp, hp].concat(), "Wa", Some("ba")));
            hf = sigmoid(self.dense(&[x, hf].concat(), "Wf", Some("bf")));
            let h: Vec<f64> = self
                .dense(&[&ha[..], &hf].concat(), "U", None)
                .iter()
                .map(|z| z.tanh())
                .collect();
            let p = sigmoid(self.dense(&h, "D", None));
            let (va, vf) = (self.get("va"), self.get("vf"));
            let z = self.dense(&h, "O", None);
            let e: Vec<f64> = (0..256)
                .map(|i| (z[i] + p[0] * va[i] + p[1] * vf[i]).exp())
                .collect();
            x = e.iter().map(|x| x / e.iter().sum::<f64>()).collect();
            let mut so_far = add(1.0, &h);
            if depth < 3 && p[0] > self.get("child")[depth] {
                let (n, t) = self.siblings(&x, &ha, depth + 1);
                so_far = add(n, &t);
            }
            if k == 3 || p[1] <= self.get("sibling")[k] {
                return so_far;
            }
        }
        unreachable!("four children at most")
    }

    fn actions(&self, words: &[i64]) -> (Vec<f32>, Vec<f64>) {
        let words: Vec<_> = words.iter().map(|k| self.row("E", *k as usize)).collect();
        let empty = self.get("empty");
        let mut buffer = vec![empty.clone()];
        for x in words.iter().rev() {
            buffer.push(self.cell("b", x, &buffer[buffer.len() - 1]));
        }
        let mut stack = vec![(empty.clone(), empty.clone())];
        let (mut act, mut actions, mut at) = (empty, vec![], 0);
        for _ in 0..2 * words.len() - 1 {
            let top = stack[stack.len() - 1].1.clone();
            let z = self.dense(
                &[top, buffer[words.len() - at].clone(), act.clone()].concat(),
                "Wp",
                Some("bp"),
            );
            let z: Vec<f64> = z.iter().map(|z| z.tanh()).collect();
            let p = self.dense(&z, "Wl", Some("bl"));
            let legal = |k: usize| {
                if k == 0 {
                    at < words.len()
                } else {
                    stack.len() > 2
                }
            };
            let best = (0..3)
                .filter(|k| legal(*k))
                .max_by(|a, b| p[*a].total_cmp(&p[*b]))
                .expect("an action");
            let item = if best == 0 {
                at += 1;
                words[at - 1].clone()
            } else {
                let (right, left) = (stack.pop().expect("two").0, stack.pop().expect("one").0);
                self.cell(&format!("c{best}"), &left, &right)
            };
            let h = self.cell("s", &item, &stack[stack.len() - 1].1);
            stack.push((item, h));
            act = self.cell("a", &self.row("A", best), &act);
            actions.push(best as f32);
        }
        (actions, stack.pop().expect("the state").1)
    }
}

fn close(found: &Tensor, want: &[f64]) {
    let pairs = floats(found).into_iter().zip(want);
    let far = pairs
        .map(|(a, b)| (f64::from(a) - b).abs())
        .fold(0.0, f64::max);
    assert!(far < 1e-4, "{far}");
}

#[test]
fn drnn_grows_the_tree_of_its_plain_form() {
    let module = compile(&model("drnn.hl"));
    // Loud enough for probabilities of both sides of these thresholds.
    let thresholds = [
        ("child", vec![0.5, 0.5, 0.5]),
        ("sibling", vec![0.5, 0.49, 0.5]),
    ];
    let given =
        thresholds.map(|(name, values): (&'static str, Vec<f32>)| (name, Tensor::vector(&values)));
    let inputs = with_weights(&module, given.into());
    let out = run_all(&module, &inputs);
    let plain = Plain(inputs);
    let (count, total) = plain.siblings(&plain.get("x"), &plain.get("ha"), 0);
    assert_eq!(f64::from(floats(&out[0])[0]), count);
    close(&out[1], &total);
    // The states of the tree's nodes.
    let tree = compile(&model("drnn_tree.hl"));
    let out = run_all(&tree, &inputs_of(&tree, &plain.0));
    let tags = out[0].to_vec::<i32>().expect("tags");
    assert_eq!(tags.iter().sum::<i32>() as f64, count);
    let mut sums = vec![0.0; 256];
    for row in floats(&out[1]).chunks(256) {
        sums.iter_mut()
            .zip(row)
            .for_each(|(s, x)| *s += f64::from(*x));
    }
    let sums: Vec<f32> = sums.iter().map(|x| *x as f32).collect();
    close(&Tensor::vector(&sums), &total);
}

/// Those inputs that a program has.
fn inputs_of(module: &Module, all: &[(String, Tensor)]) -> Vec<(String, Tensor)> {
    let params = &module.entry().sig.params;
    let own = all.iter().filter(|(n, _)| params.iter().any(|p| p.0 == *n));
    own.cloned().collect()
}

#[test]
fn stackrnn_takes_the_actions_of_its_plain_form() {
    let module = compile(&model("stackrnn.hl"));
    for n in [1, 2, 5] {
        let words: Vec<i64> = (0..n).map(|k| k * 3).collect();
        let inputs = with_weights(&module, vec![("word", i64s(&words))]);
        let out = run_all(&module, &inputs);
        let (actions, state) = Plain(inputs).actions(&words);
        assert_eq!(floats(&out[0]), actions);
        close(&out[1], &state);
    }
}
