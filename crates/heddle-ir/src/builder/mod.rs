//! Builds functions instruction by instruction, with result types inferred and checked.

mod emit;
mod ops;
mod random;

pub use self::emit::{Emit, EmitError};
pub use self::random::Draws;

use std::collections::HashMap;
use std::sync::Arc;

use crate::infer::{self, Arg, RegionTypes, TypeError};
use crate::{
    DType, Dim, Entity, FuncId, Function, Loc, Op, Region, Signature, Tensor, Type, Value,
};

/// Builds one function.
///
/// Instructions go to the innermost open region: the function's body, or what [`begin_region`](Self::begin_region)
/// opened. Besides types, the builder tracks what small integer arrays (shapes, indices) hold, as [`Dim`]s, so that
/// results have precise shapes also where shapes are computed.
pub struct FuncBuilder {
    func: Function,
    open: Vec<Region>,
    known: HashMap<Value, Vec<Dim>>,
    loc: Option<Arc<Loc>>,
    folder: Option<Folder>,
    marks: Vec<(Value, usize)>,
}

/// Evaluates an op on constants; `None` if it cannot.
pub type Folder = fn(&Op, &[&Tensor]) -> Option<Vec<Tensor>>;

/// Results of more elements are not folded while building: passes do that.
const MAX_FOLDED: usize = 4096;

/// A state that [`FuncBuilder::rollback`] returns to.
pub struct Checkpoint {
    values: usize,
    insts: usize,
    regions: usize,
    open: Vec<(Region, usize, usize)>,
}

impl FuncBuilder {
    /// Starts a function with this signature; result types may still be changed at [`finish`](Self::finish).
    pub fn new(sig: Signature) -> Self {
        let func = Function::new(sig);
        Self {
            open: vec![func.body],
            func,
            known: HashMap::new(),
            loc: None,
            folder: None,
            marks: vec![],
        }
    }

    /// The function's parameters.
    pub fn params(&self) -> &[Value] {
        &self.func.regions[self.func.body].params
    }

    /// The function as it stands.
    pub fn func(&self) -> &Function {
        &self.func
    }

    /// Sets the source location of the instructions that follow.
    pub fn set_loc(&mut self, loc: Option<Arc<Loc>>) {
        self.loc = loc;
    }

    /// Evaluates ops on small constants while building. Without a folder nothing is folded.
    pub fn set_folder(&mut self, folder: Option<Folder>) {
        self.folder = folder;
    }

    /// The source location that new instructions get.
    pub fn loc(&self) -> Option<&Arc<Loc>> {
        self.loc.as_ref()
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.func.ty(value)
    }

    /// The known contents of an integer array of rank 0 or 1.
    pub fn known(&self, value: Value) -> Option<&[Dim]> {
        self.known.get(&value).map(Vec::as_slice)
    }

    /// Gives a value a name for people.
    pub fn set_name(&mut self, value: Value, name: &str) {
        self.func.values[value].name = Some(name.into());
    }

    /// Replaces the inferred type by another that agrees with it: for facts that inference cannot see.
    pub fn refine_type(&mut self, value: Value, ty: Type) -> Result<(), TypeError> {
        if !self.ty(value).compatible(&ty) {
            let message = format!("a value of type {} cannot be {ty}", self.ty(value));
            return Err(TypeError::new("type annotation", message));
        }
        self.func.values[value].ty = ty;
        Ok(())
    }

    /// Appends an instruction that is neither control flow nor a call.
    pub fn op(&mut self, op: Op, args: &[Value]) -> Result<Vec<Value>, TypeError> {
        self.push(op, args, vec![], None)
    }

    /// [`op`](Self::op) for an op with one result.
    pub fn op1(&mut self, op: Op, args: &[Value]) -> Result<Value, TypeError> {
        Ok(self.op(op, args)?[0])
    }

    /// Appends a constant.
    pub fn constant(&mut self, tensor: Tensor) -> Value {
        self.op1(Op::Const(tensor), &[])
            .expect("a constant has a type")
    }

    /// Appends a constant `i64[k]`.
    pub fn i64s(&mut self, values: &[i64]) -> Value {
        self.constant(Tensor::vector(values))
    }

    /// Appends a constant `i64[]`.
    pub fn i64(&mut self, value: i64) -> Value {
        self.constant(Tensor::scalar(value))
    }

    /// Appends a constant of rank 0; `dtype` is arithmetic or `bool`.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Value {
        self.constant(Tensor::splat(dtype, vec![], value))
    }

    /// Opens a region with parameters of these types; returns it and the parameters.
    pub fn begin_region(&mut self, params: &[Type]) -> (Region, Vec<Value>) {
        let region = self.func.regions.push(Default::default());
        let values = params
            .iter()
            .map(|t| self.func.add_param(region, t.clone(), None))
            .collect();
        self.open.push(region);
        (region, values)
    }

    /// Closes the innermost region, which yields these values.
    pub fn end_region(&mut self, yields: &[Value]) -> Region {
        assert!(self.open.len() > 1, "the body is closed by finish");
        let region = self.open.pop().expect("open region");
        self.func.regions[region].yields = yields.to_vec();
        region
    }

    /// Appends an `if`.
    pub fn if_(
        &mut self,
        cond: Value,
        then: Region,
        otherwise: Region,
    ) -> Result<Vec<Value>, TypeError> {
        self.push(Op::If, &[cond], vec![then, otherwise], None)
    }

    /// Appends a `loop`.
    pub fn loop_(
        &mut self,
        trip: Option<Value>,
        cond: Option<Value>,
        carried: &[Value],
        body: Region,
    ) -> Result<Vec<Value>, TypeError> {
        let op = Op::Loop {
            trip: trip.is_some(),
            cond: cond.is_some(),
        };
        let args: Vec<_> = trip
            .into_iter()
            .chain(cond)
            .chain(carried.iter().copied())
            .collect();
        self.push(op, &args, vec![body], None)
    }

    /// Appends a call of a function with this signature.
    pub fn call(
        &mut self,
        callee: FuncId,
        sig: &Signature,
        args: &[Value],
    ) -> Result<Vec<Value>, TypeError> {
        self.push(Op::Call(callee), args, vec![], Some(sig))
    }

    /// The present state, to return to when a region has to be built anew.
    pub fn checkpoint(&self) -> Checkpoint {
        let f = &self.func;
        let open = self
            .open
            .iter()
            .map(|&r| (r, f.regions[r].insts.len(), f.regions[r].params.len()));
        Checkpoint {
            values: f.values.len(),
            insts: f.insts.len(),
            regions: f.regions.len(),
            open: open.collect(),
        }
    }

    /// Remembers a value with a number of the caller's, until it is rolled back.
    pub fn mark(&mut self, value: Value, number: usize) {
        self.marks.push((value, number));
    }

    /// The values that [`mark`](Self::mark) remembers.
    pub fn marks(&self) -> &[(Value, usize)] {
        &self.marks
    }

    /// Removes everything added since the checkpoint.
    pub fn rollback(&mut self, to: &Checkpoint) {
        self.func.values.truncate(to.values);
        self.func.insts.truncate(to.insts);
        self.func.regions.truncate(to.regions);
        self.known.retain(|v, _| v.index() < to.values);
        self.marks.retain(|(v, _)| v.index() < to.values);
        self.open = to.open.iter().map(|o| o.0).collect();
        for &(region, insts, params) in &to.open {
            self.func.regions[region].insts.truncate(insts);
            self.func.regions[region].params.truncate(params);
        }
    }

    /// Ends the function, which returns these values under these names; their types become the signature's.
    pub fn finish(mut self, results: &[(String, Value)]) -> Function {
        assert_eq!(self.open.len(), 1, "all regions are closed");
        self.func.regions[self.func.body].yields = results.iter().map(|r| r.1).collect();
        let mut sig = (*self.func.sig).clone();
        sig.results = results
            .iter()
            .map(|(n, v)| (n.clone(), self.func.ty(*v).clone()))
            .collect();
        self.func.sig = Arc::new(sig);
        self.func
    }

    fn push(
        &mut self,
        op: Op,
        args: &[Value],
        regions: Vec<Region>,
        callee: Option<&Signature>,
    ) -> Result<Vec<Value>, TypeError> {
        let f = &self.func;
        let infos: Vec<_> = args
            .iter()
            .map(|v| Arg::new(f.ty(*v), self.known(*v)))
            .collect();
        let types = match callee {
            Some(sig) => infer::call_results(sig, &infos)?,
            None => {
                let regions: Vec<_> = regions.iter().map(|&r| RegionTypes::of(f, r)).collect();
                infer::result_types(&op, &infos, &regions)?
            }
        };
        let known = infer::known_results(&op, &infos);
        if let Some(values) = self.fold(&op, args, &types) {
            return Ok(values);
        }
        let inst = self
            .func
            .add_inst(op, args.to_vec(), regions, types, self.loc.clone());
        let region = *self.open.last().expect("open region");
        self.func.regions[region].insts.push(inst);
        let results = self.func.insts[inst].results.clone();
        if let Some(known) = known {
            self.known.insert(results[0], known);
        }
        Ok(results)
    }

    /// Constants in place of the op, if it is static, its operands are constants and its results are small.
    fn fold(&mut self, op: &Op, args: &[Value], types: &[Type]) -> Option<Vec<Value>> {
        let folder = self.folder?;
        if args.is_empty() || op.region_count() > 0 || !op.is_static() {
            return None;
        }
        let small = |t: &Type| {
            let shape = t.as_tensor()?.static_shape()?;
            crate::tensor::element_count(&shape).filter(|n| *n <= MAX_FOLDED)
        };
        types.iter().map(small).collect::<Option<Vec<_>>>()?;
        let operands: Option<Vec<_>> = args.iter().map(|v| self.func.constant(*v)).collect();
        let results = folder(op, &operands?)?;
        Some(results.into_iter().map(|t| self.constant(t)).collect())
    }
}
