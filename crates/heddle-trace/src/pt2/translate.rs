//! A graph of the file to a neutral one, node by node.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::aliasing::Aliasing;
use super::expr::{self, Renamed};
use super::memory::{Memory, Ports};
use super::schema::{self, Argument, KEYWORD, STRIDED, SymIntArgument, TensorMeta};
use crate::error::{NodePlace, OpError, Result, Stop, TraceError, invalid, refuse};
use crate::graph::{Arg, Graph, Node, Place, SIZE, Size, Value};

/// Nodes, arguments, results and axes that changes in place may add to a graph: they multiply what the file states.
const MAX_ADDED: usize = 1 << 22;

/// A name of a graph: an array in memory, or an argument that is no array.
#[derive(Clone)]
pub enum Bound {
    Array(usize),
    Arg(Arg),
}

/// A graph under translation.
pub struct Walk<'s> {
    pub source: &'s schema::Graph,
    pub renamed: &'s Renamed,
    pub out: Graph,
    /// Nodes at which a name of a size begins, which are kept.
    pub begins: Vec<bool>,
    pub names: HashMap<&'s str, Bound>,
    pub memory: Memory<'s>,
    /// Names of sizes that are bound.
    sizes: HashSet<String>,
    /// Line of the node that is translated.
    pub place: Option<Place>,
    next: i64,
    /// What changes in place added, as [`MAX_ADDED`] counts it.
    added: usize,
}

impl<'s> Walk<'s> {
    /// A graph that sees these names of sizes.
    pub fn new(source: &'s schema::Graph, renamed: &'s Renamed, sizes: HashSet<String>) -> Self {
        Self {
            source,
            renamed,
            out: Graph::default(),
            begins: vec![],
            names: HashMap::new(),
            memory: Memory::default(),
            sizes,
            place: None,
            next: 0,
            added: 0,
        }
    }

    /// Defines a name.
    pub fn define(&mut self, name: &'s str, bound: Bound) -> Result<()> {
        match self.names.insert(name, bound) {
            None => Ok(()),
            Some(_) => invalid(format!("two values are called `{name}`")),
        }
    }

    /// Adds an input, an array or a size; a number takes a place, but has no name.
    pub fn input(&mut self, input: &'s Argument) -> Result<()> {
        let (name, value) = match input {
            Argument::AsTensor(tensor) => {
                let meta = self.meta(&tensor.name)?;
                (tensor.name.as_str(), self.array(&tensor.name, meta)?)
            }
            Argument::AsSymInt(SymIntArgument::AsName(name)) => {
                let size = self.size_of(name)?;
                let stated = match bare(&size) {
                    Some(symbol) => symbol.to_owned(),
                    None => name.clone(),
                };
                (name.as_str(), self.value(&stated, SIZE, vec![]))
            }
            _ => ("", self.value("number", SIZE, vec![])),
        };
        self.bind_sizes(&value);
        let arg = Arg::Value(value.id);
        self.out.inputs.push(value);
        if let Argument::AsTensor(_) = input {
            let meta = self.meta(name)?;
            let view = self.memory.fresh(name, meta, arg);
            return self.define(name, Bound::Array(view));
        }
        match name {
            "" => Ok(()),
            _ => self.define(name, Bound::Arg(arg)),
        }
    }

    /// Translates all nodes.
    pub fn nodes(&mut self, function: &str) -> Result<(), TraceError> {
        for node in &self.source.nodes {
            self.place = place_of(node);
            let target = target_of(&node.target);
            self.node(node, &target, function)
                .map_err(|stop| match stop {
                    Stop::Inner(error) => error,
                    Stop::Here(error) => TraceError::Node {
                        at: Box::new(NodePlace {
                            function: function.to_owned(),
                            name: node.name.clone().unwrap_or_default(),
                            target,
                            place: self.place.clone(),
                        }),
                        error,
                    },
                })?;
        }
        self.place = None;
        Ok(())
    }

    fn node(&mut self, node: &'s schema::Node, target: &str, function: &str) -> Result<(), Stop> {
        if let Some(size) = self.known_size(node, target)? {
            return Ok(self.define(size.0, Bound::Arg(size.1))?);
        }
        if let Some(name) = target.strip_prefix("higher_order.") {
            let (target, args, within) = self.higher_order(name, node, function)?;
            let results = self.results(node)?;
            self.emit_all(target, args, Default::default(), results)?;
            // These stack their results, which copies them.
            if !matches!(name, "associative_scan" | "map" | "map_impl") {
                self.note_aliases(node, &within);
            }
            return Ok(());
        }
        let aliasing = Aliasing::of(target, &node.inputs);
        if let Aliasing::Writes(form) = aliasing {
            return Ok(self.write_in_place(node, target, &form)?);
        }
        if self.is_training_norm(node, target)? {
            return Ok(self.training_norm(node)?);
        }
        let (args, kwargs) = self.arguments(node)?;
        if aliasing != Aliasing::None {
            return Ok(self.view(node, target, args, kwargs, aliasing)?);
        }
        let results = self.results(node)?;
        Ok(self.emit_all(target.to_owned(), args, kwargs, results)?)
    }

    /// A node's arguments by position and by name.
    pub fn arguments(
        &mut self,
        node: &'s schema::Node,
    ) -> Result<(Vec<Arg>, BTreeMap<String, Arg>)> {
        let (mut args, mut kwargs) = (vec![], BTreeMap::new());
        for input in &node.inputs {
            let arg = self.arg(&input.arg)?;
            match input.kind {
                Some(KEYWORD) => {
                    kwargs.insert(input.name.clone(), arg);
                }
                Some(_) => args.push(arg),
                None => {
                    return refuse(
                        "an argument of which the file does not say if it is given by name: save it with PyTorch 2.9 or later",
                    );
                }
            }
        }
        Ok((args, kwargs))
    }

    /// The size that a node gives, if it is known by the names that are bound.
    fn known_size(&self, node: &'s schema::Node, target: &str) -> Result<Option<(&'s str, Arg)>> {
        let [Argument::AsSymInt(SymIntArgument::AsName(name))] = &node.outputs[..] else {
            return Ok(None);
        };
        let reads = ["aten.item.default", "aten._local_scalar_dense.default"];
        let Ok(size) = self.size_of(name) else {
            return Ok(None);
        };
        let arg = match size {
            Size::Int(n) => Arg::Int(n),
            Size::Expr(_) if reads.contains(&target) || !self.is_bound(&size) => return Ok(None),
            size => Arg::Size(size),
        };
        Ok(Some((name, arg)))
    }

    fn is_bound(&self, size: &Size) -> bool {
        let Size::Expr(text) = size else {
            return true;
        };
        let mut bound = true;
        if let Ok(expr) = crate::size::Expr::parse(text) {
            expr.for_each_name(&mut |name| bound &= self.sizes.contains(name));
        }
        bound
    }

    /// The results that a node states, with their names in the file.
    pub fn results(&mut self, node: &'s schema::Node) -> Result<Vec<(Option<&'s str>, Value)>> {
        let mut results = vec![];
        for output in &node.outputs {
            match output {
                Argument::AsTensor(t) => {
                    let meta = self.meta(&t.name)?;
                    results.push((Some(t.name.as_str()), self.array(&t.name, meta)?));
                }
                Argument::AsTensors(all) => {
                    for t in all {
                        let meta = self.meta(&t.name)?;
                        results.push((Some(t.name.as_str()), self.array(&t.name, meta)?));
                    }
                }
                Argument::AsSymInt(SymIntArgument::AsName(name)) => {
                    let size = self.size_of(name).ok();
                    let symbol = size.as_ref().and_then(bare);
                    let stated = symbol.unwrap_or(name).to_owned();
                    results.push((Some(name), self.value(&stated, SIZE, vec![])));
                }
                Argument::AsSymBool(schema::SymBoolArgument::AsName(name)) => {
                    results.push((Some(name), self.value(name, "bool", vec![])));
                }
                Argument::AsSymFloat(schema::SymFloatArgument::AsName(name)) => {
                    results.push((Some(name), self.value(name, "f64", vec![])));
                }
                // A result that is not computed.
                _ => {
                    let name = node.name.as_deref().unwrap_or("none");
                    results.push((None, self.value(name, "f32", vec![Size::Int(0)])));
                }
            }
        }
        Ok(results)
    }

    /// Appends a node whose results are memory of their own.
    fn emit_all(
        &mut self,
        target: String,
        args: Vec<Arg>,
        kwargs: BTreeMap<String, Arg>,
        results: Vec<(Option<&'s str>, Value)>,
    ) -> Result<()> {
        let named: Vec<(Option<&str>, Arg, bool)> = results
            .iter()
            .map(|(name, v)| (*name, Arg::Value(v.id), v.ty == SIZE))
            .collect();
        let values = results.into_iter().map(|(_, v)| v).collect();
        self.emit(target, args, kwargs, values)?;
        for (name, arg, is_size) in named {
            let Some(name) = name else {
                continue;
            };
            let bound = match self.source.tensor_values.get(name) {
                Some(meta) if !is_size => Bound::Array(self.memory.fresh(name, meta, arg)),
                _ => Bound::Arg(arg),
            };
            self.define(name, bound)?;
        }
        Ok(())
    }

    /// Appends a node.
    pub fn emit(
        &mut self,
        target: String,
        args: Vec<Arg>,
        kwargs: BTreeMap<String, Arg>,
        results: Vec<Value>,
    ) -> Result<()> {
        let mut begins = false;
        for value in &results {
            begins |= self.bind_sizes(value);
        }
        self.begins.push(begins);
        self.out.nodes.push(Node {
            target,
            args,
            kwargs,
            results,
            place: self.place.clone(),
        });
        Ok(())
    }

    /// Appends a node that the file does not state, because of a change in place.
    pub fn emit_again(
        &mut self,
        target: String,
        args: Vec<Arg>,
        kwargs: BTreeMap<String, Arg>,
        results: Vec<Value>,
    ) -> Result<()> {
        let lists = args.iter().chain(kwargs.values()).map(|arg| match arg {
            Arg::List(list) => 1 + list.len(),
            _ => 1,
        });
        let size = |size: &Size| match size {
            Size::Int(_) => 1,
            Size::Expr(text) => 1 + text.len() / 8,
        };
        let axes = (results.iter()).map(|r| 1 + r.shape.iter().map(size).sum::<usize>());
        self.added += 1 + lists.sum::<usize>() + axes.sum::<usize>();
        if self.added > MAX_ADDED {
            return refuse(format!(
                "changes in place that make its graph larger by more than {MAX_ADDED} nodes, arguments and results"
            ));
        }
        self.emit(target, args, kwargs, results)
    }

    /// Notes the names of sizes that begin at a value. Are there any?
    fn bind_sizes(&mut self, value: &Value) -> bool {
        let mut begins = value.ty == SIZE && self.sizes.insert(value.name.clone());
        for name in value.shape.iter().filter_map(bare) {
            begins |= self.sizes.insert(name.to_owned());
        }
        begins
    }

    /// A nested graph, and where its arrays lie.
    pub fn nested(
        &mut self,
        graph: &'s schema::Graph,
        function: &str,
    ) -> Result<(Graph, Ports), TraceError> {
        let wrong = |error: OpError| TraceError::Graph {
            function: function.to_owned(),
            message: error.to_string(),
        };
        let mut walk = Walk::new(graph, self.renamed, self.sizes.clone());
        walk.added = self.added;
        for input in &graph.inputs {
            walk.input(input).map_err(wrong)?;
        }
        let inputs = walk.memory.len();
        walk.nodes(function)?;
        if let Some(name) = walk.memory.changed(0..inputs) {
            let message = format!("a graph of control flow changes its input `{name}` in place");
            return Err(wrong(OpError::Unsupported(message)));
        }
        for output in &graph.outputs {
            let output = walk.arg(output).map_err(wrong)?;
            walk.out.outputs.push(output);
        }
        self.added = walk.added;
        let ports = walk.ports();
        Ok((walk.finish(), ports))
    }

    /// The graph, without nodes that nothing reads.
    pub fn finish(self) -> Graph {
        super::prune::prune(self.out, &self.begins)
    }

    /// The type and shape of an array of the file.
    pub fn meta(&self, name: &str) -> Result<&'s TensorMeta> {
        let found = self.source.tensor_values.get(name);
        found.ok_or_else(|| OpError::Invalid(format!("the file states no type of `{name}`")))
    }

    /// A new value of this type and shape.
    pub fn array(&mut self, name: &str, meta: &TensorMeta) -> Result<Value> {
        let ty = schema::dtype(meta.dtype);
        let ty = ty.map_err(|name| OpError::Unsupported(format!("arrays of {name}")))?;
        if meta.layout != STRIDED {
            return refuse(format!("arrays of the layout {}", meta.layout));
        }
        let sizes = meta.sizes.iter().map(|s| expr::size(s, self.renamed));
        let sizes: std::result::Result<_, String> = sizes.collect();
        Ok(self.value(name, ty, sizes.map_err(OpError::Unsupported)?))
    }

    pub fn value(&mut self, name: &str, ty: &str, shape: Vec<Size>) -> Value {
        self.next += 1;
        Value {
            id: self.next - 1,
            name: name.to_owned(),
            ty: ty.to_owned(),
            shape,
        }
    }

    /// The size that the file states for a name.
    fn size_of(&self, name: &str) -> Result<Size> {
        let found = self.source.sym_int_values.get(name);
        let found = found.ok_or_else(|| {
            OpError::Invalid(format!("the file does not state the size `{name}`"))
        })?;
        expr::size(found, self.renamed).map_err(OpError::Unsupported)
    }
}

/// The name that a size is, alone.
fn bare(size: &Size) -> Option<&str> {
    match size {
        Size::Expr(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            Some(text)
        }
        _ => None,
    }
}

/// A target in the notation of the neutral graph.
fn target_of(target: &str) -> String {
    let found = target.strip_prefix("torch.ops.").or_else(|| {
        let name = target.strip_prefix("torch.")?;
        name.starts_with("sym_").then_some(name)
    });
    match (found, target.strip_prefix("_operator.")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => format!("operator.{name}"),
        _ => target.to_owned(),
    }
}

/// The Python line that a node comes from: the innermost in a file.
fn place_of(node: &schema::Node) -> Option<Place> {
    let trace = node.metadata.get("stack_trace")?;
    let mut found = None;
    let mut lines = trace.lines().peekable();
    while let Some(line) = lines.next() {
        let frame = line.trim_start().strip_prefix("File \"");
        let Some((file, rest)) = frame.and_then(|f| f.split_once("\", line ")) else {
            continue;
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let Ok(line) = rest[..digits.unwrap_or(rest.len())].parse() else {
            continue;
        };
        if !file.starts_with('<') {
            let text = lines.peek().map_or("", |text| text.trim());
            found = Some(Place {
                file: file.to_owned(),
                line,
                text: text.to_owned(),
            });
        }
    }
    found
}
