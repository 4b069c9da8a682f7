//! Inputs, outputs and state of an exported program.

use std::collections::{BTreeMap, HashMap, HashSet};

use heddle_ir::Tensor;

use super::archive::Archive;
use super::expr::Renamed;
use super::given::{self, Given};
use super::names;
use super::prune;
use super::schema::{Argument, GraphModule, InputSpec, OutputSpec, SymInt, SymIntArgument};
use super::translate::{Bound, Walk};
use super::weights::Weights;
use super::{Pt2, Pt2Error, Pt2Options};
use crate::error::{OpError, TraceError};
use crate::graph::{Arg, Graph, Module, VERSION};

/// The name of the program's only function.
const ENTRY: &str = "main";

/// Translates and lowers a program.
pub fn build(
    source: &GraphModule,
    weights: &Weights,
    archive: &mut Archive,
    options: &Pt2Options,
) -> Result<Pt2, TraceError> {
    let renamed = renamed(source);
    let mut walk = Walk::new(&source.graph, &renamed, HashSet::new());
    let kept = names_of(&source.signature.input_specs);
    let given = Given::of(&kept, weights, options)?;
    let state = inputs(&mut walk, source, &given)?;
    note_overlaps(&mut walk, &state, weights);
    walk.nodes(ENTRY)?;
    let (body, changed) = outputs(walk, source, &state)?;
    let constants = arrays(&body, weights, archive, &given)?;
    let mut optional = vec![];
    for name in changed {
        let value = match constants.get(&name) {
            Some(tensor) => tensor.clone(),
            None => weights.tensor(archive, &name)?,
        };
        optional.push((name, value.ty()));
    }
    let functions = BTreeMap::from([(ENTRY.to_owned(), body)]);
    let module = Module {
        version: VERSION,
        entry: ENTRY.to_owned(),
        functions,
    };
    crate::read::check(&module)?;
    let module = crate::lower::lower(&module, &constants, options.folder)?;
    Ok(Pt2 { module, optional })
}

/// Arrays that are inputs of the file's graph.
enum State<'s> {
    /// A parameter, buffer or constant of this name, by its name in the graph.
    Kept(&'s str, &'s str),
    /// An argument, by its name.
    User(&'s str),
}

/// The names of the file's arrays among the inputs of its graph.
fn names_of(specs: &[InputSpec]) -> Vec<&str> {
    let names = specs.iter().filter_map(|spec| match spec {
        InputSpec::Parameter {
            parameter_name: name,
        }
        | InputSpec::Buffer { buffer_name: name }
        | InputSpec::TensorConstant {
            tensor_constant_name: name,
        } => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

fn wrong(error: OpError) -> TraceError {
    TraceError::Graph {
        function: ENTRY.to_owned(),
        message: error.to_string(),
    }
}

/// Symbols that are inputs, under the names of these.
fn renamed(source: &GraphModule) -> Renamed {
    let mut renamed = Renamed::new();
    for input in &source.graph.inputs {
        if let Argument::AsSymInt(SymIntArgument::AsName(name)) = input
            && let Some(SymInt::AsExpr(expr)) = source.graph.sym_int_values.get(name)
            && let Some(symbol) = expr.expr_str.strip_prefix("Symbol('")
            && let Some((symbol, _)) = symbol.split_once('\'')
        {
            renamed.insert(symbol.to_owned(), name.clone());
        }
    }
    renamed
}

/// Defines the inputs. The file's arrays are constants, unless they are given as inputs.
fn inputs<'s>(
    walk: &mut Walk<'s>,
    source: &'s GraphModule,
    given: &Given,
) -> Result<Vec<State<'s>>, TraceError> {
    let (inputs, specs) = (&source.graph.inputs, &source.signature.input_specs);
    if inputs.len() != specs.len() {
        let (n, m) = (inputs.len(), specs.len());
        let message = format!("its graph has {n} inputs, and its signature {m}");
        return Err(wrong(OpError::Invalid(message)));
    }
    let mut state = vec![];
    // Given inputs that are defined: tied arrays are one.
    let mut made: HashMap<&str, Arg> = HashMap::new();
    for (input, spec) in inputs.iter().zip(specs) {
        let name = match spec {
            InputSpec::UserInput {
                arg: Argument::AsCustomObj(object),
            }
            | InputSpec::CustomObj { arg: object } => {
                let text = format!("an input of the class `{}`", object.class_fqn);
                return Err(Pt2Error::Unsupported(text).into());
            }
            InputSpec::Token(_) => {
                return Err(Pt2Error::Unsupported("an order of effects".into()).into());
            }
            InputSpec::UserInput { .. } => {
                match input {
                    Argument::AsTensor(t) => state.push(State::User(&t.name)),
                    Argument::AsSymInt(_) => {}
                    // A constant of the program, which nothing reads by name.
                    _ => continue,
                }
                walk.input(input).map_err(wrong)?;
                continue;
            }
            InputSpec::ConstantInput { name } => {
                let arg = walk.arg(input).map_err(wrong)?;
                walk.define(name, Bound::Arg(arg)).map_err(wrong)?;
                continue;
            }
            InputSpec::Parameter {
                parameter_name: name,
            }
            | InputSpec::Buffer { buffer_name: name }
            | InputSpec::TensorConstant {
                tensor_constant_name: name,
            } => name,
        };
        let Argument::AsTensor(tensor) = input else {
            let message = format!("the input for `{name}` is no array");
            return Err(wrong(OpError::Invalid(message)));
        };
        state.push(State::Kept(name, &tensor.name));
        let known = match given.inputs.get(name.as_str()) {
            None => Arg::Constant(name.clone()),
            Some(given_as) => match made.get(given_as) {
                Some(input) => input.clone(),
                None => {
                    walk.input(input).map_err(wrong)?;
                    if let Some(input) = walk.out.inputs.last_mut() {
                        input.name = (*given_as).to_owned();
                        made.insert(given_as, Arg::Value(input.id));
                    }
                    continue;
                }
            },
        };
        let meta = walk.meta(&tensor.name).map_err(wrong)?;
        let view = walk.memory.fresh(&tensor.name, meta, known);
        walk.define(&tensor.name, Bound::Array(view))
            .map_err(wrong)?;
    }
    Ok(state)
}

/// Notes arrays of the file that overlap: a change of one is one of the other.
fn note_overlaps(walk: &mut Walk, state: &[State], weights: &Weights) {
    let kept = state.iter().filter_map(|s| match s {
        State::Kept(name, inner) => Some((*name, *inner)),
        State::User(_) => None,
    });
    let kept: Vec<(&str, &str)> = kept.collect();
    let names: Vec<&str> = kept.iter().map(|(name, _)| *name).collect();
    let overlapping: HashMap<&str, &str> = weights.overlapping(&names).into_iter().collect();
    for (name, inner) in kept {
        if let (Some(other), Some(Bound::Array(view))) =
            (overlapping.get(name), walk.names.get(inner))
        {
            walk.memory.note_overlap(*view, other);
        }
    }
}

/// The graph with its outputs: those of the user, then what the program changes; and the names of the file's arrays among these.
fn outputs(
    mut walk: Walk,
    source: &GraphModule,
    state: &[State],
) -> Result<(Graph, Vec<String>), TraceError> {
    let (outputs, specs) = (&source.graph.outputs, &source.signature.output_specs);
    if outputs.len() != specs.len() {
        let (n, m) = (outputs.len(), specs.len());
        let message = format!("its graph has {n} outputs, and its signature {m}");
        return Err(wrong(OpError::Invalid(message)));
    }
    let (mut user, mut changes) = (vec![], vec![]);
    for (output, spec) in outputs.iter().zip(specs) {
        let name = match spec {
            OutputSpec::UserOutput(_) | OutputSpec::LossOutput(_) => {
                user.push(match output {
                    Argument::AsString(_) | Argument::AsCustomObj(_) => Arg::None(true),
                    output => walk.arg(output).map_err(wrong)?,
                });
                continue;
            }
            OutputSpec::BufferMutation { buffer_name: name }
            | OutputSpec::ParameterMutation {
                parameter_name: name,
            }
            | OutputSpec::UserInputMutation {
                user_input_name: name,
            } => name,
            OutputSpec::GradientToParameter(_) | OutputSpec::GradientToUserInput(_) => {
                return Err(Pt2Error::Unsupported("an output that is a gradient".into()).into());
            }
            OutputSpec::Token(_) => {
                return Err(Pt2Error::Unsupported("an order of effects".into()).into());
            }
        };
        changes.push((name.clone(), walk.arg(output).map_err(wrong)?));
    }
    for input in state {
        let (name, inner) = match input {
            State::Kept(name, inner) => (*name, *inner),
            State::User(name) => (*name, *name),
        };
        if let Some(Bound::Array(view)) = walk.names.get(inner).cloned()
            && walk.memory.changed(view..view + 1).is_some()
        {
            changes.push((name.to_owned(), walk.read(view).map_err(wrong)?));
        }
    }
    let call = source.module_call_graph.iter().find(|c| c.fqn.is_empty());
    let spec = call
        .and_then(|c| c.signature.as_ref())
        .map(|s| s.out_spec.as_str());
    let fields = &source.treespec_namedtuple_fields;
    let mut names = names::of_outputs(spec, fields, user.len());
    let kept = |name: &str| {
        let mut state = state.iter();
        state.any(|s| matches!(s, State::Kept(n, _) if *n == name))
    };
    let changed = changes.iter().map(|(name, _)| name.clone());
    let changed = changed.filter(|name| kept(name)).collect();
    for (name, value) in changes {
        names.push(name);
        user.push(value);
    }
    walk.out.outputs = user;
    walk.out.output_names = names;
    Ok((walk.finish(), changed))
}

/// The arrays that a graph reads: those of the file, or what replaces them.
fn arrays(
    body: &Graph,
    weights: &Weights,
    archive: &mut Archive,
    given: &Given,
) -> Result<HashMap<String, Tensor>, TraceError> {
    let mut constants = HashMap::new();
    for name in prune::constants(body) {
        let mut tensor = weights.tensor(archive, &name)?;
        if let Some((given_as, other)) = given.constants.get(name.as_str()) {
            if other.ty() != tensor.ty() {
                let (found, wanted) = (other.ty(), tensor.ty());
                let message = format!("it is {found}, and the model's is {wanted}");
                return Err(given::wrong(given_as, &message).into());
            }
            tensor = (*other).clone();
        }
        constants.insert(name, tensor);
    }
    Ok(constants)
}
