//! Writes convolutions: loops around the kernels of `prelude/windows.h`.

use heddle_uprogram::contract::{Access, Contract, Extent, WindowAxis, Windows, panel_width};
use heddle_uprogram::program::{Body, Local};
use heddle_uprogram::{ExprId, UProgram};

use crate::operator::Writer;
use crate::scalar::name;

/// Bytes of the list of a block's runs, unless a single tile has more.
const LIST_BYTES: i64 = 24 << 10;

/// Bytes of a run, with up to eight rows.
const RUN_BYTES: i64 = 80;

/// The most tiles of a block: with up to eight rows as many as a block of other products.
const MOST_TILES: i64 = 16;

/// Places of a line of the map from which on its results are transposed.
const LEAST_LINE: i64 = 4;

/// The windows that a kernel reads where they lie, with their axes.
pub fn read_windows(c: &Contract) -> Option<(Windows, [WindowAxis; 3])> {
    let reads = matches!(c.a.access, Access::Windows { .. }) && c.tile > 1;
    let windows = *c.windows.as_deref().filter(|_| reads)?;
    Some((windows, windows.lined()?))
}

/// The longest run of a program's windows of this type; `None` without windows.
pub fn longest_run(program: &UProgram, dtype: heddle_ir::DType) -> Option<i64> {
    let bodies = program.operators.iter().map(|(_, op)| &op.body);
    let runs = bodies.filter_map(|body| match body {
        Body::Contract(c) if c.dtype == dtype => {
            let (windows, [.., x]) = read_windows(c)?;
            Some(windows.channels * if joined(&windows, x) { x.taps } else { 1 })
        }
        _ => None,
    });
    runs.max()
}

/// True if the taps along the innermost axis are one run.
fn joined(windows: &Windows, x: WindowAxis) -> bool {
    x.dilation == 1 && windows.channels == windows.pitch
}

impl Writer<'_> {
    /// Blocks of tiles, to each of which some panels are applied before the next ones. The first
    /// element of the map and the panels are `a` and `b`.
    pub(crate) fn by_windows(
        &mut self,
        c: &Contract,
        (windows, axes): (Windows, [WindowAxis; 3]),
        ty: &str,
        t: &str,
    ) {
        let [z, y, x] = axes;
        let (width, kernels) = (panel_width(c.dtype), self.kernels(c));
        let whole = match c.b.access {
            Access::Panels { depth, .. } if depth != c.depth.1 => self.size(depth),
            _ => "depth".into(),
        };
        let along = if joined(&windows, x) { 1 } else { x.taps };
        let most = z.taps * y.taps * along;
        let tiles = (LIST_BYTES / (RUN_BYTES * most)).clamp(1, MOST_TILES);
        let figures = axes.map(|a| {
            let [places, size, pad] =
                [a.places, a.size, a.pad].map(|extent| self.window_extent(extent));
            let [taps, stride, dilation] = [a.taps, a.stride, a.dilation];
            format!("{{{places}, {size}, {taps}, {stride}, {dilation}, {pad}}}")
        });
        let storage = match axes.iter().all(|a| a.fixed().is_some()) {
            true => "static const",
            false => "const",
        };
        let line = self.window_extent(x.places);
        for line in [
            format!(
                "{storage} heddle_windows windows = {{{{{}}}, {}, {}}};",
                figures.join(", "),
                windows.channels,
                windows.pitch
            ),
            format!("const int64_t end = (last + {}) / {width};", width - 1),
            format!("const int64_t lines = (last_row - 1) / {line} + 1 - first_row / {line};"),
            format!("const int64_t places = (lines + HEDDLE_ROWS - 1) / HEDDLE_ROWS * {line};"),
            format!("for (int64_t place = 0; place < places; place += {tiles}) {{"),
            format!("const int64_t tiles = places - place < {tiles} ? places - place : {tiles};"),
            format!("heddle_window_tile at[{tiles}];"),
            format!("heddle_run_{t} runs[{tiles} * {most}];"),
            format!(
                "heddle_find_runs_{t}(&windows, a, first_row, last_row, place, tiles, {most}, at, runs);"
            ),
            format!(
                "for (int64_t panel = first / {width}; panel < end; panel += HEDDLE_PANELS) {{"
            ),
        ] {
            self.text.line(line);
        }
        self.poll();
        for line in [
            "const int64_t panels = end - panel < HEDDLE_PANELS ? end - panel : HEDDLE_PANELS;"
                .into(),
            format!("const int64_t start = panel * {width}, ahead = last - start;"),
            format!(
                "{ty} tile[{tiles} * HEDDLE_ROWS * HEDDLE_PANELS * {width}] __attribute__((aligned(64)));"
            ),
            format!(
                "heddle_block_of_windows_{kernels}(tiles, at, {most}, runs, panels, {whole}, b + panel * {width} * {whole}, tile);"
            ),
            "const int64_t low = first > start ? first - start : 0;".into(),
            format!("const int64_t high = ahead < panels * {width} ? ahead : panels * {width};"),
        ] {
            self.text.line(line);
        }
        let is_long = x.places.as_int().is_none_or(|places| places >= LEAST_LINE);
        match self.turned_offsets(c).filter(|_| is_long) {
            Some((rows, offsets)) => self.finish_lines(c, &line, ty, rows, &offsets),
            None => self.finish_tiles(c, &line, ty),
        }
        (0..2).for_each(|_| self.text.line("}"));
    }

    fn window_extent(&mut self, extent: Extent) -> String {
        match extent {
            Extent::Static(n) => n.to_string(),
            Extent::Dynamic(size) => self.size(size),
        }
    }

    /// The epilogue of a block's tiles, whose results of a place lie next to each other.
    fn finish_tiles(&mut self, c: &Contract, places: &str, ty: &str) {
        let width = panel_width(c.dtype);
        self.text.line("for (int64_t t = 0; t < tiles; t++) {");
        self.text.line("for (int64_t r = 0; r < at[t].rows; r++) {");
        if let Some(rows) = c.rows {
            self.text.line(format!(
                "const int64_t {} = at[t].row + r * {places};",
                name(rows),
            ));
        }
        let place = format!("(t * HEDDLE_ROWS + r) * HEDDLE_PANELS * {width} + c");
        self.finish_row(c, ty, ["low", "high"], &place);
        (0..2).for_each(|_| self.text.line("}"));
    }

    /// The epilogue of a block's tiles, line by line of the result: the sums of neighbouring tiles are transposed, so that they and the
    /// results are read and written in vectors.
    fn finish_lines(
        &mut self,
        c: &Contract,
        places: &str,
        ty: &str,
        rows: Local,
        offsets: &[(ExprId, i64)],
    ) {
        let (width, bytes) = (panel_width(c.dtype), c.dtype.bits().max(32) / 8);
        for line in [
            "for (int64_t t = 0, line; t < tiles; t += line) {".into(),
            format!("line = heddle_line(at + t, tiles - t, {places});"),
            "for (int64_t r = 0; r < at[t].rows; r++) {".into(),
            format!("const int64_t {} = at[t].row + r * {places};", name(rows)),
            format!(
                "{ty} turned[HEDDLE_PANELS * {width} * {MOST_TILES}] __attribute__((aligned(64)));"
            ),
            format!(
                "heddle_turned_{bytes}(line, high, tile + (t * HEDDLE_ROWS + r) * HEDDLE_PANELS * {width}, HEDDLE_ROWS * HEDDLE_PANELS * {width}, {MOST_TILES}, turned);"
            ),
        ] {
            self.text.line(line);
        }
        self.finish_turned(c, ty, (rows, offsets), ["line", &MOST_TILES.to_string()]);
        (0..2).for_each(|_| self.text.line("}"));
    }
}
