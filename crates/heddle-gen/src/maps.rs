//! Programs of convolutions by constant weights, with what stands around them in networks of pictures.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The text of a program whose values are maps `[batch, channels, height, width]`: convolutions of every attribute, pooling, sums,
/// concatenations, scales by group of channels and activations, also in the arms of a branch and in loops; in every third program also
/// transposed convolutions. The batch is a named size `n` as often as not.
pub fn maps(seed: u64) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let batch = ["n", "1", "2"][rng.random_range(0..3)];
    let mut maps = Maps {
        rng,
        batch,
        text: String::new(),
        known: vec![],
        names: 0,
        transposes: seed % 3 == 2,
    };
    let channels = [3, 4, 8, 17][maps.pick(4)];
    let sizes = [5, 6, 8, 13];
    let first = Map {
        name: "x".into(),
        sizes: [channels, sizes[maps.pick(4)], sizes[maps.pick(4)]],
    };
    let input = maps.ty(first.sizes);
    maps.known.push(first);
    for _ in 0..maps.rng.random_range(3..9) {
        maps.step(2);
    }
    let mut result = || {
        let k = maps.later();
        let Map { name, sizes } = &maps.known[k];
        (format!("%{name}"), maps.ty(*sizes))
    };
    let results = [result(), result()];
    let (types, names): (Vec<_>, Vec<_>) = results
        .into_iter()
        .enumerate()
        .map(|(i, (name, ty))| (format!("%out{i}: {ty}"), name))
        .unzip();
    format!(
        "fn @main(%x: {input}, %flag: bool[]) -> ({}) {{\n{}  return {}\n}}\n",
        types.join(", "),
        maps.text,
        names.join(", ")
    )
}

/// A value: its channels, height and width.
#[derive(Clone)]
struct Map {
    name: String,
    sizes: [usize; 3],
}

/// A program under construction.
struct Maps {
    rng: ChaCha8Rng,
    batch: &'static str,
    text: String,
    /// The maps in scope.
    known: Vec<Map>,
    names: usize,
    /// Some convolutions are transposed.
    transposes: bool,
}

impl Maps {
    fn pick(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }

    /// The number of a map, more often of a late one.
    fn later(&mut self) -> usize {
        let count = self.known.len();
        self.pick(count).max(self.rng.random_range(0..count))
    }

    fn ty(&self, [c, h, w]: [usize; 3]) -> String {
        format!("f32[{},{c},{h},{w}]", self.batch)
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn line(&mut self, line: String) {
        self.text += &format!("  {line}\n");
    }

    /// A new map of this value.
    fn keep(&mut self, sizes: [usize; 3], value: String) -> Map {
        let name = self.fresh();
        self.line(format!("%{name} = {value}"));
        let map = Map { name, sizes };
        self.known.push(map.clone());
        map
    }

    /// Appends an operator, or a branch or loop that has some, so deep.
    fn step(&mut self, depth: usize) {
        let k = self.later();
        let map = self.known[k].clone();
        match self.pick(13) {
            0 if depth > 0 => self.branch(&map, depth - 1),
            1 if depth > 0 => self.repeat(&map, depth - 1),
            3..=5 if self.transposes => self.transposed(&map),
            0..=5 => drop(self.conv(&map, false)),
            6 => self.activation(&map),
            7 => self.sum(&map),
            8 => self.concat(&map),
            9 => self.pool(&map),
            10 => self.scale(&map),
            11 => self.separable(&map),
            _ => drop(self.conv(&map, true)),
        }
    }

    /// A convolution; with `same` one that keeps the map's sizes.
    fn conv(&mut self, map: &Map, same: bool) -> Map {
        let [channels, ..] = map.sizes;
        let divides = divisors(channels);
        let groups = match self.pick(3) {
            0 => divides[self.pick(divides.len())],
            _ => 1,
        };
        let outputs = match same {
            true => channels,
            false => groups * [1, 2, 3, 8, 16, 17][self.pick(6)].min(1 + 40 / groups),
        };
        let kernel: [usize; 2] = [0, 1].map(|_| match same {
            true => [1, 3, 5][self.pick(3)],
            false => [1, 1, 2, 3, 3, 4][self.pick(6)],
        });
        let some = |s: &mut Self| -> [usize; 2] {
            [0, 1].map(|_| if same { 1 } else { [1, 1, 2, 3][s.pick(4)] })
        };
        let (strides, dilations) = (some(self), some(self));
        let reach: [usize; 2] = [0, 1].map(|i| (kernel[i] - 1) * dilations[i] + 1);
        let mut pads = [[0, 0]; 2];
        for i in 0..2 {
            let least = reach[i].saturating_sub(map.sizes[1 + i]);
            pads[i] = match same {
                true => [kernel[i] / 2; 2],
                false => [least + self.pick(3), self.pick(3)],
            };
        }
        let size = |i: usize| {
            let all = map.sizes[1 + i] + pads[i][0] + pads[i][1];
            (all - reach[i]) / strides[i] + 1
        };
        let sizes = [outputs, size(0), size(1)];
        let shape = [outputs, channels / groups, kernel[0], kernel[1]];
        let (w, weights) = (self.fresh(), self.weights(&shape));
        let ty = shape.map(|n| n.to_string()).join(",");
        self.line(format!("%{w} = const {weights}: f32[{ty}]"));
        let [[top, bottom], [left, right]] = pads;
        self.keep(
            sizes,
            format!(
                "conv(%{}, %{w}, [{top}, {left}, {bottom}, {right}], strides={strides:?}, dilations={dilations:?}, input_dilations=[1,1], groups={groups})",
                map.name
            ),
        )
    }

    /// A transposed convolution, of maps that are small.
    fn transposed(&mut self, map: &Map) {
        let [channels, h, w] = map.sizes;
        let divides = divisors(channels);
        let groups = match self.pick(3) {
            0 => divides[self.pick(divides.len())],
            _ => 1,
        };
        let outputs = groups * [1, 3, 8, 16, 17][self.pick(5)].min(1 + 40 / groups);
        let some = |s: &mut Self, n: usize| [0, 1].map(|_| 1 + s.pick(n));
        let (kernel, dilations, phases) = (some(self, 4), some(self, 2), some(self, 3));
        let mut pads = [[0, 0]; 2];
        let mut sizes = [outputs, h, w];
        for i in 0..2 {
            let reach = (kernel[i] - 1) * dilations[i];
            pads[i] = [0, 1].map(|_| reach - self.pick(reach + 1) + self.pick(2));
            let padded = (map.sizes[1 + i] - 1) * phases[i] + 1 + pads[i][0] + pads[i][1];
            if padded <= reach || padded - reach > 24 {
                return;
            }
            sizes[1 + i] = padded - reach;
        }
        let shape = [outputs, channels / groups, kernel[0], kernel[1]];
        let (weight, weights) = (self.fresh(), self.weights(&shape));
        let ty = shape.map(|n| n.to_string()).join(",");
        self.line(format!("%{weight} = const {weights}: f32[{ty}]"));
        let [[top, bottom], [left, right]] = pads;
        self.keep(
            sizes,
            format!(
                "conv(%{}, %{weight}, [{top}, {left}, {bottom}, {right}], strides=[1,1], dilations={dilations:?}, input_dilations={phases:?}, groups={groups})",
                map.name
            ),
        );
    }

    /// A convolution of each channel by itself, then one of all channels of a place.
    fn separable(&mut self, map: &Map) {
        let [channels, h, w] = map.sizes;
        let (kernel, outputs) = ([3, 5][self.pick(2)], [16, 17, 32][self.pick(3)]);
        let mut map = map.clone();
        for (shape, groups) in [
            ([channels, 1, kernel, kernel], channels),
            ([outputs, channels, 1, 1], 1),
        ] {
            let (name, weights) = (self.fresh(), self.weights(&shape));
            let (ty, pad) = (shape.map(|n| n.to_string()).join(","), shape[2] / 2);
            self.line(format!("%{name} = const {weights}: f32[{ty}]"));
            map = self.keep(
                [shape[0], h, w],
                format!(
                    "conv(%{}, %{name}, [{pad}, {pad}, {pad}, {pad}], strides=[1,1], dilations=[1,1], input_dilations=[1,1], groups={groups})",
                    map.name
                ),
            );
        }
    }

    /// Small numbers whose sums are exact.
    fn weights(&mut self, shape: &[usize]) -> String {
        let Some((&size, rest)) = shape.split_first() else {
            return format!("{:?}", f64::from(self.rng.random_range(-4..=4)) / 16.0);
        };
        let parts: Vec<_> = (0..size).map(|_| self.weights(rest)).collect();
        format!("[{}]", parts.join(", "))
    }

    fn activation(&mut self, map: &Map) {
        let value = match self.pick(3) {
            0 => format!("max(%{}, 0.0)", map.name),
            1 => format!("tanh(%{})", map.name),
            _ => format!("mul(%{}, 0.5)", map.name),
        };
        self.keep(map.sizes, value);
    }

    fn sum(&mut self, map: &Map) {
        let alike = self.known.iter().filter(|other| other.sizes == map.sizes);
        let alike: Vec<_> = alike.map(|other| other.name.clone()).collect();
        let other = alike[self.pick(alike.len())].clone();
        self.keep(map.sizes, format!("add(%{}, %{other})", map.name));
    }

    fn concat(&mut self, map: &Map) {
        let [channels, h, w] = map.sizes;
        let beside = self.known.iter().filter(|other| other.sizes[1..] == [h, w]);
        let beside: Vec<_> = beside.cloned().collect();
        let other = beside[self.pick(beside.len())].clone();
        let all = channels + other.sizes[0];
        if all <= 40 {
            let value = format!("concat(%{}, %{}, axis=1)", map.name, other.name);
            self.keep([all, h, w], value);
        }
    }

    fn pool(&mut self, map: &Map) {
        let [channels, h, w] = map.sizes;
        let kind = ["max", "sum"][self.pick(2)];
        let stride = 1 + self.pick(2);
        let size = |n: usize| (n + 2 - 3) / stride + 1;
        self.keep(
            [channels, size(h), size(w)],
            format!(
                "window(%{}, [1, 1, 1, 1], kind={kind}, window=[3,3], strides=[{stride},{stride}], dilations=[1,1])",
                map.name
            ),
        );
    }

    /// Channels by numbers of their own or, where the batch is known, groups of channels through a reshape.
    fn scale(&mut self, map: &Map) {
        let [channels, h, w] = map.sizes;
        let (s, name) = (self.fresh(), &map.name);
        if self.batch == "n" {
            let numbers = self.weights(&[1, channels, 1, 1]);
            self.line(format!("%{s} = const {numbers}: f32[1,{channels},1,1]"));
            self.keep(map.sizes, format!("mul(%{name}, %{s})"));
            return;
        }
        let divides = divisors(channels);
        let groups = divides[self.pick(divides.len())];
        let (of_group, batch) = (channels / groups * h * w, self.batch);
        let (parts, scaled) = (self.fresh(), self.fresh());
        let numbers = self.weights(&[1, groups, 1]);
        self.line(format!("%{s} = const {numbers}: f32[1,{groups},1]"));
        self.line(format!(
            "%{parts} = reshape(%{name}, [{batch}, {groups}, {of_group}])"
        ));
        self.line(format!("%{scaled} = mul(%{parts}, %{s})"));
        self.keep(
            map.sizes,
            format!("reshape(%{scaled}, [{batch}, {channels}, {h}, {w}])"),
        );
    }

    /// A branch whose arms give maps of the same sizes.
    fn branch(&mut self, map: &Map, depth: usize) {
        let [one, other] = [0, 1].map(|_| self.inner(map, depth, "yield"));
        self.keep(
            map.sizes,
            format!("if %flag {{\n{one}  }} else {{\n{other}  }}"),
        );
    }

    /// A loop that carries a map.
    fn repeat(&mut self, map: &Map, depth: usize) {
        let (trips, carried) = (self.fresh(), self.fresh());
        self.line(format!("%{trips} = const {}: i64[]", self.names % 3));
        let inside = Map {
            name: carried.clone(),
            sizes: map.sizes,
        };
        self.known.push(inside.clone());
        let body = self.inner(&inside, depth, "continue carry");
        self.known.retain(|known| known.name != carried);
        let ty = self.ty(map.sizes);
        self.keep(
            map.sizes,
            format!(
                "loop trip %{trips} carry (%{carried}: {ty} = %{}) {{\n{body}  }}",
                map.name
            ),
        );
    }

    /// A region that ends with a map of these sizes, which may be the given one or a sum with it; what it defines is gone behind it.
    fn inner(&mut self, map: &Map, depth: usize, end: &str) -> String {
        let (outer, scope) = (std::mem::take(&mut self.text), self.known.len());
        for _ in 0..self.pick(3) {
            self.step(depth);
        }
        let mut last = map.clone();
        for _ in 0..self.pick(3) {
            last = self.conv(&last, true);
        }
        if self.pick(2) == 0 {
            let value = format!("add(%{}, %{})", last.name, map.name);
            last = self.keep(map.sizes, value);
        }
        self.line(format!("{end} %{}", last.name));
        self.known.truncate(scope);
        std::mem::replace(&mut self.text, outer)
    }
}

fn divisors(n: usize) -> Vec<usize> {
    (1..=n).filter(|d| n.is_multiple_of(*d)).collect()
}
