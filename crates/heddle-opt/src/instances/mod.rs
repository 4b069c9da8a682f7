//! A program for one instance becomes one for many, each with control flow of its own (Cavs;
//! ACROBAT; Radul et al., "Automatically Batching Control-Intensive Programs for Modern
//! Accelerators").
//!
//! A [`Set`](set::Set) evaluates instructions for some of the instances at once. A value is the same
//! for all of them, an array with a row for each, or a range of an array for each where leading axes
//! differ in size ([`Lane`](lane::Lane)). Where control flow differs, sets are parted:
//!
//! - a branch evaluates each arm for the instances that take it ([`part`]);
//! - a loop keeps a list of the instances that go on, and evaluates its body for these. One that is
//!   done leaves the list, and its values are written to its row of the results ([`leave`]). The last one
//!   goes on as alone ([`last`]), and so does the only one of a batch ([`one`]). Loops
//!   whose iterations meet only in rows of arrays go level by level ([`row_loops`]).
//!
//! A recursion that follows from tensors is evaluated level by level ([`levels`]) or, where a call
//! needs another's result, by frames ([`frames`]).
//!
//! An instruction without a rule is evaluated for one instance after the other ([`each`]), so that
//! what runs alone runs batched; [`Instances::one_by_one`] names these instructions.

mod alike;
mod blocks;
mod bounded;
mod calls;
mod carried;
mod each;
mod flat;
mod frames;
mod grow;
mod indexed;
mod joined;
mod lane;
mod last;
mod leave;
mod levels;
mod lists;
mod one;
mod padded;
mod part;
mod ports;
mod ragged;
mod ragged_ops;
mod repeat;
pub(crate) mod row_loops;
mod scanned;
mod segments;
mod set;
mod sizes;
mod slices;
mod stack;
mod state;
mod unsafe_empty;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use heddle_ir::{Dim, FuncBuilder, Function, Inst, Loc, Module, Type, Value};

use crate::batch::{Refusal, Result};
use crate::callgraph::Components;
pub use blocks::{Block, Counted};
use joined::AllJoined;
pub use ports::{offsets_name, shapes_name};
use ports::{outputs, parameters, signature};
use set::Set;

/// The form of a parameter or result of a program for many instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The same for all instances.
    Shared,
    /// Another axis in front, with a row for each instance.
    Stacked,
    /// The instances behind each other along the first axis, and in a second array, `NAME.offsets`,
    /// `i64[instances + 1]`, the first element of each and the end.
    Ragged,
    /// All elements of the instances behind each other, `T[total]`. `NAME.offsets` has the first one
    /// of each and the end, `NAME.shapes`, `i64[instances, rank]`, the sizes of its axes.
    Flat,
}

/// Choices for programs for many instances.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchOptions {
    /// The most frames of a recursion at once. If that is not enough, instances run one after the
    /// other, depth first.
    pub max_frames: Option<usize>,
    /// Recursions that go level by level go by frames, too: to compare the two.
    pub prefers_frames: bool,
    /// Loops over rows go level by level also where that hardly pays: to compare the two.
    pub prefers_levels: bool,
}

/// An instruction that is evaluated for one instance after the other.
#[derive(Clone, Debug)]
pub struct OneByOne {
    /// The name of the op.
    pub op: &'static str,
    /// The place in the model.
    pub loc: Option<Arc<Loc>>,
    /// The reason why it is not evaluated for many at once.
    pub refusal: Refusal,
}

/// A program for many instances.
#[derive(Debug)]
pub struct Instances {
    /// The program; its entry takes and gives all instances.
    pub module: Module,
    /// The form of each result.
    pub results: Vec<Form>,
    /// Instructions that are evaluated for one instance after the other.
    pub one_by_one: Vec<OneByOne>,
    /// Parts of the program that sets of instances evaluate.
    pub blocks: Vec<Counted>,
}

/// Functions that are made for the calls of a program. All its contexts share them.
#[derive(Default)]
struct Functions {
    /// The module for many instances, to which functions are added.
    made: RefCell<Module>,
    /// The functions on the arrays of all instances, by those on the arrays of one.
    joined: RefCell<AllJoined>,
    /// The functions that evaluate calls for a set of instances.
    calls: RefCell<calls::Calls>,
    /// The call graph of the program for one.
    components: OnceCell<Components>,
}

/// Facts that all sets of a function share.
struct Context<'a> {
    module: &'a Module,
    /// The module for many instances, to which functions are added.
    made: &'a RefCell<Module>,
    /// The functions on the arrays of all instances, by those on the arrays of one.
    joined: &'a RefCell<AllJoined>,
    /// The functions that evaluate calls for a set of instances.
    calls: &'a RefCell<calls::Calls>,
    components: &'a OnceCell<Components>,
    /// Named sizes that differ by instance.
    ragged: HashSet<Arc<str>>,
    one_by_one: RefCell<Vec<OneByOne>>,
    blocks: RefCell<Vec<Block>>,
    options: BatchOptions,
    /// The most elements that an iteration appends to an array in place, by the loop's parameter.
    grown: RefCell<HashMap<Value, u32>>,
}

impl<'a> Context<'a> {
    fn new(module: &'a Module, functions: &'a Functions, options: BatchOptions) -> Self {
        Context {
            module,
            made: &functions.made,
            joined: &functions.joined,
            calls: &functions.calls,
            components: &functions.components,
            ragged: HashSet::new(),
            one_by_one: RefCell::default(),
            blocks: RefCell::default(),
            options,
            grown: RefCell::default(),
        }
    }
}

impl Context<'_> {
    /// The call graph of the program for one.
    fn components(&self) -> &Components {
        self.components
            .get_or_init(|| Components::of_module(self.module))
    }

    /// May a size of the source differ by instance?
    fn differs(&self, dim: &Dim) -> bool {
        let Some(expr) = dim.as_expr() else {
            return true;
        };
        let mut differs = false;
        expr.for_each_sym(&mut |name| differs |= self.ragged.contains(name));
        differs
    }

    /// A type of the source without sizes that differ by instance.
    fn ty(&self, ty: &Type) -> Type {
        ty.map_dims(&mut |dim| match dim {
            Dim::Expr(_) if self.differs(dim) => Dim::UNKNOWN,
            dim => dim.clone(),
        })
    }

    /// The context of a function in which other sizes differ by instance.
    fn within(&self, ragged: HashSet<Arc<str>>) -> Context<'_> {
        Context {
            ragged,
            one_by_one: RefCell::default(),
            blocks: RefCell::default(),
            grown: RefCell::default(),
            ..*self
        }
    }

    fn note(&self, inst: Inst, source: &Function, refusal: Refusal) {
        let data = &source.insts[inst];
        self.one_by_one.borrow_mut().push(OneByOne {
            op: data.op.name(),
            loc: data.loc.clone(),
            refusal,
        });
    }
}

/// The entry for many instances, whose parameters have these forms, at least one of them not
/// [`Form::Shared`]. Calls that are not recursive should be inlined first. Lists of equal elements
/// become arrays.
pub fn batch_instances(module: &Module, forms: &[Form]) -> Result<Instances> {
    batch_instances_with(module, forms, BatchOptions::default())
}

/// [`batch_instances`] with other choices.
pub fn batch_instances_with(
    module: &Module,
    forms: &[Form],
    options: BatchOptions,
) -> Result<Instances> {
    let module = &*lists::as_arrays(module);
    let entry = module.entry_id().ok_or(Refusal::NoRows)?;
    let source = &module.functions[entry];
    let functions = Functions {
        made: RefCell::new(module.clone()),
        ..Default::default()
    };
    let mut context = Context::new(module, &functions, options);
    let sig = signature(&mut context, source, forms)?;
    let mut b = FuncBuilder::new(sig);
    let parameters = parameters(&mut b, &context, source, forms)?;
    let mut set = Set::new(source, &context, parameters.count, parameters.dim);
    set.values = parameters.lanes;
    set.take_padded(&mut b, parameters.padded)?;
    let mark = b.checkpoint();
    let yields = match set.results(&mut b) {
        Ok(results) => {
            context.mark(&mut b, set.count, Block::program(false));
            results
        }
        Err(refusal) => {
            b.rollback(&mark);
            context.one_by_one.replace(vec![OneByOne {
                op: "program",
                loc: None,
                refusal,
            }]);
            set.each_run(&mut b)?
        }
    };
    let (outputs, results) = outputs(&mut b, &set, yields)?;
    let mut blocks = context.counted(b.marks(), entry);
    let mut one_by_one = context.one_by_one.into_inner();
    let mut module = functions.made.take();
    module.functions[entry] = b.finish(&outputs);
    let calls = functions.calls.take();
    calls.report(&module, entry, &mut one_by_one, &mut blocks);
    Ok(Instances {
        module,
        results,
        one_by_one,
        blocks,
    })
}
