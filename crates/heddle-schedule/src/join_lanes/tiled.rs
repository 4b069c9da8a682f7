//! The price of a contraction by tiles.

use heddle_machine::{Exchange, Machine};
use heddle_uprogram::contract::Rounding;
use heddle_uprogram::program::{Body, Multiplier, Operator, Tile, UProgram};

use super::{Load, WORD, access_ns, share_of, slower, step};
use crate::cost::{cores_ns, estimate, scalar, warpgroups_ns};

/// The work of a unit on a contraction by tiles.
pub(super) struct Tiled {
    /// Products of matrices, one after the other.
    products: f64,
    /// Rows and columns of each.
    sides: [f64; 2],
    depth: f64,
    /// Nanoseconds of a lane to evaluate an element of either operand without its access to memory, and to add a product to a sum.
    element_ns: f64,
    product_ns: f64,
    /// The type that operands may be rounded to, with the nanoseconds of a unit to add a product of such numbers by warps and by
    /// warpgroups, if it can.
    rounding: Option<Rounding>,
    cores: [Option<f64>; 2],
    /// Elements that are read for one of either operand: their steps along its rows or columns, and along the depth.
    loads: [Vec<Load>; 2],
}

impl Tiled {
    /// Has a unit the lanes, the memory and, if they are asked for, the tensor cores of a tile?
    pub(super) fn fits(&self, machine: &Machine, exchange: Exchange, tile: Tile) -> bool {
        let group = tile.by.lanes() as usize;
        let fits_cores = exchange.warp == Tile::WARP as usize
            && machine.lanes().is_multiple_of(group)
            && self.cores_ns(tile.by).is_some();
        tile.is_sound()
            && (fits_cores || tile.by == Multiplier::Lane)
            && tile.lanes() as usize <= machine.lanes()
            && tile.words(self.rounding) as usize * WORD <= exchange.shared_bytes
    }

    /// Has a unit as many rows as are multiplied at a time? A warpgroup's are left to warps, or to lanes, otherwise.
    pub(super) fn fills(&self, tile: Tile) -> bool {
        let least = f64::from(tile.by.least()[0]);
        tile.by != Multiplier::Warpgroup || self.sides[0] >= least
    }

    pub(super) fn of(program: &UProgram, machine: &Machine, op: &Operator) -> Option<Self> {
        let Body::Contract(c) = &op.body else {
            return None;
        };
        let axes = op.body.tiled_axes()?;
        let varying = program.locals_of(c.depth.1);
        if axes.iter().any(|axis| varying.contains(axis)) {
            return None;
        }
        let lanes = machine.lanes() as f64;
        let arithmetic = machine.arithmetic(scalar(c.dtype));
        let product_ns = arithmetic.fma_ns * lanes;
        let loads = |value, axis| {
            let found = program.pool.loads([value]).into_iter();
            let found = found.map(|(buffer, at)| Load {
                bytes: program.buffers[buffer].dtype.bits() as f64 / 8.0,
                steps: [axis, c.depth.0].map(|axis| step(program, at, Some(axis))),
            });
            found.collect()
        };
        let mut tiled = Self {
            products: 1.0,
            sides: [1.0; 2],
            depth: estimate(program, c.depth.1),
            element_ns: arithmetic.elementwise_ns * lanes,
            product_ns,
            rounding: c.rounding,
            cores: [cores_ns, warpgroups_ns].map(|ns| ns(machine, c.rounding?)),
            loads: [loads(c.a.value, axes[0]), loads(c.b.value, axes[1])],
        };
        for (k, (axis, _)) in op.axes.iter().enumerate() {
            let (places, blocks) = share_of(program, machine, op, k);
            match axes.iter().position(|side| side == axis) {
                Some(side) => {
                    tiled.sides[side] = places;
                    tiled.products *= blocks;
                }
                None => tiled.products *= places * blocks,
            }
        }
        Some(tiled)
    }

    /// Nanoseconds of a unit to add a product on its tensor cores.
    fn cores_ns(&self, by: Multiplier) -> Option<f64> {
        match by {
            Multiplier::Lane => None,
            Multiplier::Warp => self.cores[0],
            Multiplier::Warpgroup => self.cores[1],
        }
    }

    /// Nanoseconds of a unit by these tiles.
    pub(super) fn time(&self, machine: &Machine, exchange: Exchange, tile: Tile) -> f64 {
        let sizes = [tile.rows, tile.columns].map(f64::from);
        let own = [tile.own_rows, tile.own_columns].map(f64::from);
        let depth = f64::from(tile.depth(self.rounding));
        // Words of an element that lanes share, and elements that a lane evaluates at a time.
        let (words, together) = match tile.by {
            Multiplier::Lane | Multiplier::Warp => (1.0, 1.0),
            Multiplier::Warpgroup => {
                let all = sizes[0] + sizes[1];
                let words = f64::from(tile.words(self.rounding)) / (2.0 * depth * all);
                (words, 4.0 / words)
            }
        };
        let lanes = f64::from(tile.lanes());
        let (access, warp) = (access_ns(machine), exchange.warp as f64);
        let across = sizes[1] / own[1];
        // Lanes of a warp that read different elements of a side; the others read the same.
        let different = [(warp / across).max(1.0), across.min(warp)];
        let mut round = machine.syncs.lanes_ns.unwrap_or(0.0);
        for side in [0, 1] {
            let evaluated = (sizes[side] * depth / (lanes * together)).ceil() * together;
            // Neighbouring lanes take neighbouring elements along the axis where these are next to each other.
            let ways = [(0, sizes[side]), (1, depth)];
            let ways = ways.map(|(axis, run)| slower(&self.loads[side], exchange, axis, run));
            round += evaluated * (self.element_ns + access * (words + ways[0].min(ways[1])));
            round += access
                * match tile.by {
                    // An access gives a lane up to four elements, and a warp as many as it has lanes.
                    Multiplier::Lane => {
                        depth
                            * (own[side] / 4.0)
                                .max(own[side] * different[side] / warp)
                                .ceil()
                    }
                    // Lanes of a warp read an element each, with the arithmetic of its rounding.
                    Multiplier::Warp => depth * own[side] / warp * 2.0,
                    // Tensor cores read the elements themselves.
                    Multiplier::Warpgroup => 0.0,
                };
        }
        let products = match self.cores_ns(tile.by) {
            Some(ns) => sizes[0] * sizes[1] * ns,
            None => own[0] * own[1] * self.product_ns,
        };
        let read = match tile.by {
            Multiplier::Lane | Multiplier::Warp => 0.0,
            // Each instruction reads its rows and columns, while it multiplies.
            Multiplier::Warpgroup => {
                let rows = f64::from(tile.by.least()[0]);
                let columns = own[1].min(f64::from(Tile::WIDEST));
                let instructions = sizes[0] / rows * (sizes[1] / columns);
                access * instructions * (rows + columns) * words / machine.lanes() as f64
            }
        };
        round += depth * products.max(read);
        let [rows, columns] = [0, 1].map(|side| (self.sides[side] / sizes[side]).ceil());
        // The first places are fetched while nothing is computed.
        self.products * rows * columns * ((self.depth / depth).ceil() + 1.0) * round
    }
}

/// The tiles that so many lanes can compute, their warps or their warpgroups.
pub(super) fn tiles(lanes: usize) -> impl Iterator<Item = Tile> {
    let kinds = [
        (Multiplier::Lane, [3, 3]),
        (Multiplier::Warp, [2, 3]),
        // Sums of more columns take more registers than lanes have.
        (Multiplier::Warpgroup, [1, 4]),
    ];
    kinds.into_iter().flat_map(move |(by, more)| {
        let count = lanes / by.lanes() as usize;
        let some = (count > 0).then(|| rectangles(count, by, more));
        some.into_iter().flatten()
    })
}

/// Tiles of so many rectangles, whose sides are the least of their kind and up to so many powers of two larger.
fn rectangles(count: usize, by: Multiplier, more: [u32; 2]) -> impl Iterator<Item = Tile> {
    let (count, least) = (count.ilog2(), by.least());
    let powers = |most: u32| (0..=most).map(|k| 1u32 << k);
    let sides = powers(more[0]).flat_map(move |a| powers(more[1]).map(move |b| [a, b]));
    sides.flat_map(move |[a, b]| {
        let [own_rows, own_columns] = [a * least[0], b * least[1]];
        powers(count).map(move |across| Tile {
            rows: own_rows * ((1 << count) / across),
            columns: own_columns * across,
            own_rows,
            own_columns,
            by,
        })
    })
}
