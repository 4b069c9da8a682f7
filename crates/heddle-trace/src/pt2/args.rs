//! Arguments of nodes, and the forms of operators with graphs.

use super::memory::Ports;
use super::schema::{
    self, Argument, OptionalTensor, SymBoolArgument, SymFloatArgument, SymIntArgument,
};
use super::translate::{Bound, Walk};
use crate::error::{OpError, Result, Stop, invalid, refuse};
use crate::graph::Arg;

impl<'s> Walk<'s> {
    /// An argument, with the value that an array has at this point.
    pub fn arg(&mut self, arg: &Argument) -> Result<Arg> {
        Ok(match arg {
            Argument::AsNone(_) => Arg::None(true),
            Argument::AsTensor(t) => self.read_name(&t.name)?,
            Argument::AsTensors(all) => self.list(all, |s, t| s.read_name(&t.name))?,
            Argument::AsNestedTensors(all) => {
                self.list(all, |s, inner| s.list(inner, |s, t| s.read_name(&t.name)))?
            }
            Argument::AsOptionalTensor(t) => self.optional(t)?,
            Argument::AsOptionalTensors(all) => self.list(all, Self::optional)?,
            Argument::AsInt(n) => Arg::Int(*n),
            Argument::AsInts(all) => Arg::List(all.iter().map(|n| Arg::Int(*n)).collect()),
            Argument::AsFloat(x) => Arg::Float(*x),
            Argument::AsFloats(all) => Arg::List(all.iter().map(|x| Arg::Float(*x)).collect()),
            Argument::AsBool(x) => Arg::Bool(*x),
            Argument::AsBools(all) => Arg::List(all.iter().map(|x| Arg::Bool(*x)).collect()),
            Argument::AsString(text) => Arg::Str(text.clone()),
            Argument::AsStrings(all) => {
                Arg::List(all.iter().map(|text| Arg::Str(text.clone())).collect())
            }
            Argument::AsSymInt(n) => self.sym_int(n)?,
            Argument::AsSymInts(all) => self.list(all, Self::sym_int)?,
            Argument::AsSymFloat(x) => self.sym_float(x)?,
            Argument::AsSymFloats(all) => self.list(all, Self::sym_float)?,
            Argument::AsSymBool(x) => self.sym_bool(x)?,
            Argument::AsSymBools(all) => self.list(all, Self::sym_bool)?,
            Argument::AsScalarType(n) => match schema::dtype(*n) {
                Ok(name) => Arg::DType(name.to_owned()),
                Err(name) => return refuse(format!("arrays of {name}")),
            },
            Argument::AsMemoryFormat(n) | Argument::AsLayout(n) => Arg::Str(n.to_string()),
            Argument::AsDevice(device) => Arg::Str(device.ty.clone()),
            Argument::AsIntLists(all) => self.list(all, |_, inner| {
                Ok(Arg::List(inner.iter().map(|n| Arg::Int(*n)).collect()))
            })?,
            Argument::AsFloatLists(all) => self.list(all, |_, inner| {
                Ok(Arg::List(inner.iter().map(|x| Arg::Float(*x)).collect()))
            })?,
            Argument::AsGraph(_) => return invalid("a graph stands where a value should"),
            Argument::AsCustomObj(object) => {
                return refuse(format!("an object of the class `{}`", object.class_fqn));
            }
            Argument::AsOperator(name) => {
                return refuse(format!("the operator `{name}` as a value"));
            }
            Argument::AsComplex(_) => return refuse("a complex number"),
            Argument::AsStringToArgument(_) => return refuse("a dictionary of arguments"),
        })
    }

    fn list<T>(&mut self, all: &[T], one: impl Fn(&mut Self, &T) -> Result<Arg>) -> Result<Arg> {
        let list = all.iter().map(|item| one(self, item));
        Ok(Arg::List(list.collect::<Result<_>>()?))
    }

    fn optional(&mut self, tensor: &OptionalTensor) -> Result<Arg> {
        match tensor {
            OptionalTensor::AsTensor(t) => self.read_name(&t.name),
            OptionalTensor::AsNone(_) => Ok(Arg::None(true)),
        }
    }

    fn sym_int(&mut self, n: &SymIntArgument) -> Result<Arg> {
        match n {
            SymIntArgument::AsName(name) => self.read_name(name),
            SymIntArgument::AsInt(n) => Ok(Arg::Int(*n)),
        }
    }

    fn sym_float(&mut self, x: &SymFloatArgument) -> Result<Arg> {
        match x {
            SymFloatArgument::AsName(name) => self.read_name(name),
            SymFloatArgument::AsFloat(x) => Ok(Arg::Float(*x)),
        }
    }

    fn sym_bool(&mut self, x: &SymBoolArgument) -> Result<Arg> {
        match x {
            SymBoolArgument::AsName(name) => self.read_name(name),
            SymBoolArgument::AsBool(x) => Ok(Arg::Bool(*x)),
        }
    }

    /// The value of a name.
    fn read_name(&mut self, name: &str) -> Result<Arg> {
        match self.names.get(name).cloned() {
            Some(Bound::Arg(arg)) => Ok(arg),
            Some(Bound::Array(view)) => self.read(view),
            None => invalid(format!("`{name}` is not defined before it")),
        }
    }

    /// Target and arguments of an operator with graphs, as `docs/trace.md` states them, and where the arrays of its graphs lie.
    pub fn higher_order(
        &mut self,
        name: &str,
        node: &'s schema::Node,
        function: &str,
    ) -> Result<(String, Vec<Arg>, Vec<Ports>), Stop> {
        let (mut args, mut within) = (vec![], vec![]);
        for input in &node.inputs {
            args.push(match &input.arg {
                Argument::AsGraph(inner) => {
                    let (graph, ports) = self.nested(&inner.graph, function)?;
                    within.push(ports);
                    Arg::Graph(graph)
                }
                arg => self.arg(arg)?,
            });
        }
        let list = |args: &[Arg]| Arg::List(args.to_vec());
        let target = match name {
            "associative_scan" | "cond" | "switch" | "while_loop" | "while_loop_stack_output" => {
                name
            }
            "scan" => {
                if args.iter().any(|arg| matches!(arg, Arg::Bool(true))) {
                    let message = "a scan in reverse order: x.flip(0) scans in reverse";
                    return Err(OpError::Unsupported(message.into()).into());
                }
                args.retain(|arg| matches!(arg, Arg::Graph(_) | Arg::List(_)));
                name
            }
            "map" | "map_impl" => "map",
            "invoke_subgraph" => {
                let rest = args.iter().skip(1).filter(|a| !matches!(a, Arg::Str(_)));
                let rest: Vec<Arg> = rest.cloned().collect();
                args.truncate(1);
                args.push(Arg::List(rest));
                name
            }
            "wrap_with_set_grad_enabled" if args.len() >= 2 => {
                args = vec![args[1].clone(), list(&args[2..])];
                name
            }
            _ => return Ok((format!("higher_order.{name}"), args, within)),
        };
        Ok((target.to_owned(), args, within))
    }
}
