//! The printer.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;

use super::MAX_SPLAT;
use super::attrs::{Attr, attributes};
use super::element;
use super::names::{is_bare, write_name, write_quoted};
use crate::{
    DType, Entity, FuncId, Function, Inst, Loc, LoopForm, Module, Op, Region, Tensor, Value,
};

/// Treatment of constants of many elements.
#[derive(Default)]
pub enum Large<'a> {
    /// They are in the text.
    #[default]
    Inline,
    /// They are left out: text for people, which does not read back.
    Elide,
    /// They are appended to a file beside the text.
    Sidecar {
        /// The file's name in the text.
        file: &'a str,
        /// The file, written from its start.
        blob: &'a mut dyn io::Write,
    },
}

/// Options of the printer.
pub struct PrintOptions<'a> {
    /// Treatment of large constants. Those of strings are always in the text, or left out.
    pub large: Large<'a>,
    /// Constants of more elements are large.
    pub threshold: usize,
}

impl Default for PrintOptions<'_> {
    fn default() -> Self {
        Self {
            large: Large::Inline,
            threshold: 64,
        }
    }
}

/// Constants in a sidecar file start at multiples of this.
const ALIGNMENT: u64 = 64;

pub(super) fn module(m: &Module, options: &mut PrintOptions) -> io::Result<String> {
    let mut p = Printer {
        m,
        out: String::new(),
        names: HashMap::new(),
        constants: ConstantWriter::new(options),
    };
    p.entries();
    for (i, (_, f)) in m.functions.iter().enumerate() {
        if i > 0 {
            p.out.push('\n');
        }
        p.function(f)?;
    }
    Ok(p.out)
}

struct Printer<'a, 'o, 'b> {
    m: &'a Module,
    out: String,
    /// The names of the function's values, with the sigil.
    names: HashMap<Value, String>,
    constants: ConstantWriter<'o, 'b>,
}

/// Writes the constants of one text.
pub struct ConstantWriter<'o, 'b> {
    options: &'o mut PrintOptions<'b>,
    /// Bytes written to the sidecar file.
    written: u64,
    /// Bytes of `splat` constants that the reader will still accept.
    splat_left: usize,
}

impl<'o, 'b> ConstantWriter<'o, 'b> {
    /// A writer that treats large constants as the options say.
    pub fn new(options: &'o mut PrintOptions<'b>) -> Self {
        Self {
            options,
            written: 0,
            splat_left: MAX_SPLAT,
        }
    }

    /// Writes a constant without its type. An error is one of writing to the sidecar file.
    pub fn write(&mut self, out: &mut String, t: &Tensor) -> io::Result<()> {
        let is_large = t.len() > self.options.threshold;
        let size = t.bytes().len();
        if is_large && size <= self.splat_left && is_splat(t) {
            self.splat_left -= size;
            out.push_str("splat ");
            element::write(out, t.dtype(), bits_at(t, 0));
            return Ok(());
        }
        match &mut self.options.large {
            Large::Elide if is_large => out.push_str("elided"),
            Large::Sidecar { file, blob } if is_large && t.dtype() != DType::Str => {
                let gap = self.written.next_multiple_of(ALIGNMENT) - self.written;
                blob.write_all(&[0; ALIGNMENT as usize][..gap as usize])?;
                blob.write_all(t.bytes())?;
                let offset = self.written + gap;
                self.written = offset + size as u64;
                out.push_str("file(");
                write_quoted(out, file).expect("a String takes all");
                write!(out, ", {offset}, {size})").expect("a String takes all");
            }
            _ => elements(out, t),
        }
        Ok(())
    }
}

fn elements(out: &mut String, t: &Tensor) {
    let is_scalar = t.shape().is_empty();
    out.push_str(if is_scalar { "" } else { "[" });
    for (i, text) in t.strs().iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write_quoted(out, text).expect("a String takes all");
    }
    for i in 0..if t.dtype() == DType::Str { 0 } else { t.len() } {
        out.push_str(if i > 0 { ", " } else { "" });
        element::write(out, t.dtype(), bits_at(t, i));
    }
    out.push_str(if is_scalar { "" } else { "]" });
}

impl Printer<'_, '_, '_> {
    /// A line for each entry, none if `main` is the only one.
    fn entries(&mut self) {
        let m = self.m;
        let function = |id| Some(m.functions.get(id)?.sig.name.as_str());
        let is_plain =
            |(name, &id): (&String, &FuncId)| name == "main" && function(id) == Some("main");
        if m.entries.is_empty() || (m.entries.len() == 1 && m.entries.iter().all(is_plain)) {
            return;
        }
        for (name, &id) in &m.entries {
            let function = function(id);
            self.out.push_str("entry ");
            if function != Some(name) {
                self.name(name);
                self.out.push_str(" = ");
            }
            self.out.push('@');
            match function {
                Some(function) => self.name(function),
                None => self.put(format_args!("?{}", id.index())),
            }
            self.out.push('\n');
        }
        self.out.push('\n');
    }

    fn function(&mut self, f: &Function) -> io::Result<()> {
        self.names = value_names(f);
        self.out.push_str("fn @");
        self.name(&f.sig.name);
        self.out.push('(');
        for (i, (_, ty)) in f.sig.params.iter().enumerate() {
            let param = f.regions[f.body].params.get(i);
            let name = param.map_or("%?".into(), |v| self.value(*v));
            let comma = if i > 0 { ", " } else { "" };
            self.put(format_args!("{comma}{name}: {ty}"));
        }
        self.out.push_str(") -> (");
        for (i, (name, ty)) in f.sig.results.iter().enumerate() {
            self.out.push_str(if i > 0 { ", %" } else { "%" });
            self.name(name);
            self.put(format_args!(": {ty}"));
        }
        self.out.push(')');
        if let Some(origin) = &f.sig.origin {
            self.out.push_str(" of @");
            self.name(origin);
        }
        for (i, (name, bound)) in f.sig.bounds.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { " where " });
            self.name(name);
            self.put(format_args!(" in {}..", bound.min));
            if let Some(max) = bound.max {
                self.put(format_args!("={max}"));
            }
        }
        self.out.push_str(" {\n");
        self.instructions(f, f.body, 1)?;
        self.out.push_str("  return");
        self.list(" ", &f.regions[f.body].yields);
        self.out.push_str("\n}\n");
        Ok(())
    }

    fn instructions(&mut self, f: &Function, region: Region, depth: usize) -> io::Result<()> {
        for &inst in &f.regions[region].insts {
            self.indent(depth);
            self.instruction(f, inst, depth)?;
            self.out.push('\n');
        }
        Ok(())
    }

    fn instruction(&mut self, f: &Function, inst: Inst, depth: usize) -> io::Result<()> {
        let data = &f.insts[inst];
        for (i, v) in data.results.iter().enumerate() {
            let (comma, name) = (if i > 0 { ", " } else { "" }, self.value(*v));
            self.put(format_args!("{comma}{name}: {}", f.ty(*v)));
        }
        if !data.results.is_empty() {
            self.out.push_str(" = ");
        }
        match &data.op {
            Op::Const(t) => {
                self.out.push_str("const ");
                self.constants.write(&mut self.out, t)?;
            }
            Op::If => {
                self.out.push_str("if");
                self.list(" ", &data.args);
                for (i, &region) in data.regions.iter().enumerate() {
                    self.out.push_str(if i > 0 { " else {\n" } else { " {\n" });
                    self.instructions(f, region, depth + 1)?;
                    self.indent(depth + 1);
                    self.out.push_str("yield");
                    self.list(" ", &f.regions[region].yields);
                    self.close(depth);
                }
            }
            Op::Loop { trip, cond } => self.looping(f, inst, *trip, *cond, depth)?,
            Op::Call(callee) => {
                self.out.push_str("call @");
                match self.m.functions.get(*callee) {
                    Some(f) => self.name(&f.sig.name),
                    None => self.put(format_args!("{callee:?}")),
                }
                self.out.push('(');
                self.list("", &data.args);
                self.out.push(')');
            }
            op => {
                self.out.push_str(op.name());
                self.out.push('(');
                self.list("", &data.args);
                for (i, (key, attr)) in attributes(op).into_iter().enumerate() {
                    let first = i == 0 && data.args.is_empty();
                    self.put(format_args!("{}{key}=", if first { "" } else { ", " }));
                    self.attribute(&attr);
                }
                self.out.push(')');
            }
        }
        if let Some(Loc::Node { op, name, place }) = data.loc.as_deref() {
            self.out.push_str(" at ");
            self.name(op);
            self.out.push(' ');
            self.string(name);
            if let Some(place) = place {
                self.out.push_str(" in ");
                self.string(&place.file);
                self.out.push_str(&format!(" line {}", place.line));
            }
        }
        Ok(())
    }

    fn looping(
        &mut self,
        f: &Function,
        inst: Inst,
        trip: bool,
        cond: bool,
        depth: usize,
    ) -> io::Result<()> {
        let data = &f.insts[inst];
        // An ill-formed loop is printed as far as it goes, for whoever looks for the reason.
        let (body, mut args) = (data.regions.first(), data.args.iter());
        let Some(body) = body.map(|&r| (r, &f.regions[r])) else {
            self.out.push_str("loop");
            return Ok(());
        };
        let (region, body) = body;
        self.out.push_str("loop");
        self.list(" ", body.params.get(..1).unwrap_or(&[]));
        for (given, word) in [(trip, " trip "), (cond, " while ")] {
            if let (true, Some(v)) = (given, given.then(|| args.next()).flatten()) {
                self.list(word, std::slice::from_ref(v));
            }
        }
        let carried: Vec<_> = body.params.iter().skip(1).zip(args).collect();
        for (i, (param, first)) in carried.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { " carry (" });
            let (param, ty, first) = (self.value(**param), f.ty(**param), self.value(**first));
            self.put(format_args!("{param}: {ty} = {first}"));
        }
        self.out
            .push_str(if carried.is_empty() { " {\n" } else { ") {\n" });
        self.instructions(f, region, depth + 1)?;
        self.indent(depth + 1);
        self.out.push_str("continue");
        let form = LoopForm::new(trip, cond);
        match form.yields(&body.yields, carried.len()) {
            Some(yields) => {
                self.list(" while ", yields.cond.map_or(&[], std::slice::from_ref));
                self.list(" carry ", yields.next);
                self.list(" stack ", yields.stacked);
            }
            None => self.list(" carry ", &body.yields),
        }
        self.close(depth);
        Ok(())
    }

    fn attribute(&mut self, attr: &Attr) {
        match attr {
            Attr::Number(text) | Attr::Word(text) => self.out.push_str(text),
            Attr::Str(text) => self.string(text),
            Attr::Type(ty) => self.put(format_args!("{ty}")),
            Attr::Ints(v) => self.put(format_args!("{v:?}")),
            Attr::Strs(v) => {
                self.out.push('[');
                for (i, text) in v.iter().enumerate() {
                    self.out.push_str(if i > 0 { ", " } else { "" });
                    self.string(text);
                }
                self.out.push(']');
            }
        }
    }

    /// Values after a word, nothing when there are none.
    fn list(&mut self, word: &str, values: &[Value]) {
        for (i, v) in values.iter().enumerate() {
            let (lead, name) = (if i > 0 { ", " } else { word }, self.value(*v));
            self.put(format_args!("{lead}{name}"));
        }
    }

    /// A value's name; a value that nothing defines has none, which no reader accepts.
    fn value(&self, v: Value) -> String {
        let name = self.names.get(&v).cloned();
        name.unwrap_or_else(|| format!("%?{}", v.index()))
    }

    fn indent(&mut self, depth: usize) {
        self.out.extend(std::iter::repeat_n("  ", depth));
    }

    fn close(&mut self, depth: usize) {
        self.out.push('\n');
        self.indent(depth);
        self.out.push('}');
    }

    fn name(&mut self, name: &str) {
        write_name(&mut self.out, name).expect("a String takes all");
    }

    fn string(&mut self, text: &str) {
        write_quoted(&mut self.out, text).expect("a String takes all");
    }

    fn put(&mut self, args: std::fmt::Arguments) {
        self.out.write_fmt(args).expect("a String takes all");
    }
}

/// The bits of an element; those of a complex one: the real part in the low half.
fn bits_at(t: &Tensor, i: usize) -> u128 {
    let (width, bytes) = (t.dtype().bits(), t.bytes());
    if width < 8 {
        let place = i * width;
        return u128::from(bytes[place / 8] >> (place % 8)) & ((1 << width) - 1);
    }
    let size = width / 8;
    let mut le = [0; 16];
    le[..size].copy_from_slice(&bytes[i * size..(i + 1) * size]);
    u128::from_le_bytes(le)
}

fn is_splat(t: &Tensor) -> bool {
    if t.dtype() == DType::Str || t.dtype().is_complex() {
        return false;
    }
    let first = bits_at(t, 0);
    (1..t.len()).all(|i| bits_at(t, i) == first)
}

/// Names for a function's values, each once: their own where that is free, else with a number
/// appended; values without a name are numbered. Parameters come first since the signature fixes
/// their names.
fn value_names(f: &Function) -> HashMap<Value, String> {
    let mut all = Names::default();
    let params = &f.regions[f.body].params;
    for (v, (name, _)) in params.iter().zip(&f.sig.params) {
        all.give(*v, Some(name));
    }
    f.for_each_inst(&mut |_, data| {
        for &v in &data.results {
            all.give(v, f.values[v].name.as_deref());
        }
        for &region in &data.regions {
            for &v in &f.regions[region].params {
                all.give(v, f.values[v].name.as_deref());
            }
        }
    });
    all.of
}

#[derive(Default)]
struct Names {
    of: HashMap<Value, String>,
    taken: HashSet<String>,
    /// The next number to append to a name.
    next: HashMap<String, usize>,
    unnamed: usize,
}

impl Names {
    fn give(&mut self, v: Value, name: Option<&str>) {
        let Some(name) = name else {
            self.of
                .entry(v)
                .or_insert_with(|| format!("%{}", self.unnamed));
            self.unnamed += 1;
            return;
        };
        let mut free = name.to_string();
        while !self.taken.insert(free.clone()) {
            let number = self.next.entry(name.to_string()).or_insert(1);
            free = match is_bare(name) {
                true => format!("{name}.{number}"),
                false => format!("{name}#{number}"),
            };
            *number += 1;
        }
        let mut text = String::from("%");
        write_name(&mut text, &free).expect("a String takes all");
        self.of.entry(v).or_insert(text);
    }
}
