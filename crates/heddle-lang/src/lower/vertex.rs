//! Vertex functions (Cavs, section 3.1): evaluated for each vertex of a graph, children first.
//!
//! `pull` is a loop over the vertices that carries the states and the results of all of them, one
//! row each, and a row of zeros behind these: the state of a child that a vertex does not have.
//! An iteration writes its own row only, and reads rows outside of branches and inner loops, so that a
//! compiler can evaluate vertices level by level: a vertex that gathers within an `if` or a loop reads
//! copies of its children's states, which it makes first.

use heddle_ir::op::{BinaryOp, CompareOp};
use heddle_ir::{DType, FuncBuilder, Op, Tensor, TensorType, Type, TypeError, Value};

use super::list::whole;
use super::{Lower, Result};
use crate::ast::Vertex;
use crate::lexer::Span;
use crate::value::{Func, Ty, Val};

/// The edges of a graph.
#[derive(Clone, Copy)]
struct Edges {
    children: Value,
    /// The children and one element more, so that each vertex has a place in it, also the last ones
    /// without children.
    padded: Value,
    /// The number of children.
    edges: Value,
    /// The number of vertices, which is also the row of zeros.
    count: Value,
}

/// The states that a vertex may gather.
#[derive(Clone)]
pub struct Messages<'a> {
    /// The states of all vertices.
    states: Val<'a>,
    graph: Edges,
    /// The range of the vertex's children.
    from: Value,
    to: Value,
    /// The regions that are open around the vertex function.
    nesting: usize,
    /// The states of the vertex's children, and zeros behind them, if it gathers within other regions.
    copies: Option<Val<'a>>,
    /// It gathered within other regions.
    gathers_within: bool,
}

/// State and result of a vertex.
struct Given<'a> {
    state: Val<'a>,
    result: Val<'a>,
    /// It gathered within branches or loops.
    gathers_within: bool,
}

impl Messages<'_> {
    /// The row of the state of a child, that of zeros if the vertex has fewer children.
    fn child(&self, b: &mut FuncBuilder, child: Value) -> std::result::Result<Value, TypeError> {
        let zero = b.i64(0);
        let at = b.binary(BinaryOp::Add, self.from, child)?;
        let before = b.compare(CompareOp::Lt, at, self.to)?;
        let own = b.compare(CompareOp::Ge, child, zero)?;
        let has = b.binary(BinaryOp::And, before, own)?;
        let at = b.select(has, at, self.graph.edges)?;
        let row = b.gather(self.graph.padded, at)?;
        b.select(has, row, self.graph.count)
    }

    /// The place of the state of a child among the copies, that of zeros if there are fewer.
    fn copy(&self, b: &mut FuncBuilder, child: Value) -> std::result::Result<Value, TypeError> {
        let zero = b.i64(0);
        let all = b.binary(BinaryOp::Sub, self.to, self.from)?;
        let before = b.compare(CompareOp::Lt, child, all)?;
        let own = b.compare(CompareOp::Ge, child, zero)?;
        let has = b.binary(BinaryOp::And, before, own)?;
        b.select(has, child, all)
    }
}

impl<'a> Lower<'a> {
    /// `pull(cell, graph, x…)`: what each vertex pushes.
    pub(super) fn pull(
        &mut self,
        cell: &Val<'a>,
        graph: Val<'a>,
        args: Vec<Val<'a>>,
        span: Span,
    ) -> Result<Val<'a>> {
        let (Val::Func(Func::Vertex(k)), Val::Graph { children, offsets }) = (cell, graph) else {
            let message = "`pull` takes a vertex function, a graph and lists";
            return Err(self.error_with(span, message, "pull(cell, g, xs)"));
        };
        let vertex = &self.ast.vertices[*k];
        if args.len() != vertex.params.len() {
            let (n, m) = (vertex.params.len(), args.len());
            let message = format!("`{}` pulls {n} values, but {m} are given", vertex.name.text);
            return Err(self.error(span, message));
        }
        let mut inputs = vec![];
        for arg in args {
            inputs.push(self.as_list(arg, span)?);
        }
        let Some(state) = self.expected(&vertex.state, &Default::default()) else {
            return Err(self.error(
                vertex.state.span,
                "a state is an array or a tuple of arrays",
            ));
        };
        let graph = self.edges(children, offsets, span)?;
        let states = self.blank(&state, offsets, vertex.state.span)?;
        let (pushed, copies) = self.pushed(vertex, span, |s| {
            let zero = s.frame.b.i64(0);
            let args = inputs.iter().map(|list| s.element(list, zero, span));
            let args = args.collect::<Result<Vec<_>>>()?;
            let messages = s.messages(states.clone(), graph, (zero, zero));
            s.evaluate(vertex, args, messages)
        })?;
        let results = self.blank(&pushed, offsets, span)?;
        let init = Val::Tuple(vec![states, results]);
        let outer = self.vertex.take();
        let looped = self.counted(graph.count, init, span, &mut |s, v, carried| {
            let Val::Tuple(carried) = carried else {
                return Err(s.error(span, "a vertex carries two values"));
            };
            let mut args = vec![];
            for list in &inputs {
                args.push(s.element(list, v, span)?);
            }
            let misfit = s.misfit(span);
            let b = &mut s.frame.b;
            let from = b.gather(offsets, v).map_err(&misfit)?;
            let one = b.i64(1);
            let after = b.binary(BinaryOp::Add, v, one).map_err(&misfit)?;
            let to = b.gather(offsets, after).map_err(&misfit)?;
            let mut messages = s.messages(carried[0].clone(), graph, (from, to));
            if copies {
                messages.copies = Some(s.copies(&messages, span)?);
            }
            let given = s.evaluate(vertex, args, messages)?;
            let next = [(&carried[0], given.state), (&carried[1], given.result)];
            let next: Result<_> = next
                .into_iter()
                .map(|(all, one)| s.with_row(all, one, v, span))
                .collect();
            Ok((Val::Tuple(next?), None))
        });
        self.vertex = outer;
        match looped?.0 {
            Val::Tuple(mut all) => {
                let zero = self.frame.b.i64(0);
                let results = all.swap_remove(1);
                self.cut(&results, zero, graph.count, span).map(whole)
            }
            other => Ok(other),
        }
    }

    /// The edges of a graph, with one more, so that a vertex without children has a place to read.
    fn edges(&mut self, children: Value, offsets: Value, span: Span) -> Result<Edges> {
        let misfit = self.misfit(span);
        let b = &mut self.frame.b;
        let size = b.size(offsets, 0).map_err(&misfit)?;
        let (one, none) = (b.i64(1), b.i64s(&[0]));
        Ok(Edges {
            children,
            padded: b.join(&[children, none]).map_err(&misfit)?,
            edges: b.size(children, 0).map_err(&misfit)?,
            count: b.binary(BinaryOp::Sub, size, one).map_err(misfit)?,
        })
    }

    /// The states that a vertex with children in this range may gather.
    fn messages(&self, states: Val<'a>, graph: Edges, (from, to): (Value, Value)) -> Messages<'a> {
        Messages {
            states,
            graph,
            from,
            to,
            nesting: self.frame.nesting,
            copies: None,
            gathers_within: false,
        }
    }

    /// The states of a vertex's children, and zeros behind them.
    fn copies(&mut self, messages: &Messages<'a>, span: Span) -> Result<Val<'a>> {
        let misfit = self.misfit(span);
        let children = Val::Ir(messages.graph.children);
        let own = self.cut(&children, messages.from, messages.to, span)?;
        let own = self.plain_array(own, span)?;
        let b = &mut self.frame.b;
        let zeros = b.vector_of(messages.graph.count).map_err(&misfit)?;
        let rows = b.join(&[own, zeros]).map_err(&misfit)?;
        self.each_array(&messages.states, span, &mut |b, v| b.gather(v, rows))
    }

    /// The type of what a vertex pushes, and whether it gathers within branches or loops, found by
    /// evaluating it once.
    fn pushed(
        &mut self,
        vertex: &'a Vertex,
        span: Span,
        evaluate: impl FnOnce(&mut Self) -> Result<Given<'a>>,
    ) -> Result<(Ty, bool)> {
        let mark = self.mark();
        let outer = self.vertex.take();
        let evaluated = evaluate(self);
        self.vertex = outer;
        let given = evaluated?;
        self.check_element(&given.result, vertex.push.span)?;
        let ty = self.ty(&given.result).concrete();
        self.rollback(&mark);
        let mut types = vec![];
        Self::flat_types(&ty, &mut types);
        let fixed = |t: &Type| t.as_tensor().is_some_and(|t| t.shape.is_some());
        match types.iter().all(fixed) {
            true => Ok((ty, given.gathers_within)),
            false => Err(self.error(span, "the sizes of what this vertex pushes are not known")),
        }
    }

    /// The state and the result of one vertex.
    fn evaluate(
        &mut self,
        vertex: &'a Vertex,
        args: Vec<Val<'a>>,
        messages: Messages<'a>,
    ) -> Result<Given<'a>> {
        let mut env = vec![];
        for (param, arg) in vertex.params.iter().zip(args) {
            let what = || format!("`{}` of `{}`", param.name.text, vertex.name.text);
            let arg = match &param.ty {
                Some(ty) => {
                    self.declared(arg, ty, &mut Default::default(), &what, param.name.span)?
                }
                None => arg,
            };
            env.push((param.name.text.as_str(), arg));
        }
        let outer = std::mem::replace(&mut self.frame.env, env);
        self.vertex = Some(messages);
        let done = self.results(vertex);
        let messages = self.vertex.take();
        self.frame.env = outer;
        let (state, result) = done?;
        Ok(Given {
            state,
            result,
            gathers_within: messages.is_some_and(|m| m.gathers_within),
        })
    }

    fn results(&mut self, vertex: &'a Vertex) -> Result<(Val<'a>, Val<'a>)> {
        self.bindings(&vertex.lets)?;
        let state = self.eval(&vertex.scatter, None)?;
        let what = || format!("the state of `{}`", vertex.name.text);
        let span = vertex.scatter.span;
        let state = self.declared(state, &vertex.state, &mut Default::default(), &what, span)?;
        let result = self.eval(&vertex.push, None)?;
        let result = self.concrete(result, vertex.push.span)?;
        Ok((state, result))
    }

    /// `gather(k)`: the state of a child; `gather()`: the list of the states of all.
    pub(super) fn message(&mut self, child: Option<Val<'a>>, span: Span) -> Result<Val<'a>> {
        let Some(messages) = self.vertex.clone() else {
            let message = "only a vertex function gathers the states of children";
            return Err(self.error_with(
                span,
                message,
                "rows of an array: gather(x, indices, axis=0)",
            ));
        };
        let is_within = self.frame.nesting > messages.nesting;
        if let Some(own) = self.vertex.as_mut() {
            own.gathers_within |= is_within;
        }
        let copies = messages.copies.clone().filter(|_| is_within);
        match (child, copies) {
            (Some(child), copies) => {
                let child = self.index_of(child, span)?;
                let misfit = self.misfit(span);
                let b = &mut self.frame.b;
                let row = match copies {
                    None => messages.child(b, child),
                    Some(_) => messages.copy(b, child),
                };
                let row = row.map_err(misfit)?;
                let states = copies.unwrap_or(messages.states);
                self.each_array(&states, span, &mut |b, v| b.gather(v, row))
            }
            (None, None) => {
                let children = Val::Ir(messages.graph.children);
                let own = self.cut(&children, messages.from, messages.to, span)?;
                let own = self.plain_array(own, span)?;
                let states =
                    self.each_array(&messages.states, span, &mut |b, v| b.gather(v, own))?;
                Ok(whole(states))
            }
            (None, Some(copies)) => {
                let (first, end) = (self.frame.b.i64(0), self.frame.b.i64(-1));
                self.cut(&copies, first, end, span).map(whole)
            }
        }
    }

    /// Zeros for as many elements of this type as an array has.
    fn blank(&mut self, element: &Ty, like: Value, span: Span) -> Result<Val<'a>> {
        let mut types = vec![];
        Self::flat_types(element, &mut types);
        let mut values = vec![];
        for ty in types {
            let sized = ty
                .as_tensor()
                .and_then(|t| Some((t.dtype, t.shape.clone()?)));
            let Some((dtype, dims)) = sized.filter(|(d, _)| d.is_arith() || *d == DType::Bool)
            else {
                return Err(self.error(span, format!("a vertex has no state of type {ty}")));
            };
            let misfit = self.misfit(span);
            let b = &mut self.frame.b;
            let count = b.size(like, 0).map_err(&misfit)?;
            let mut sizes = vec![b.vector_of(count).map_err(&misfit)?];
            for dim in &dims {
                let Some(size) = b.size_of(dim).map_err(&misfit)? else {
                    return Err(
                        self.error(span, format!("the size {dim} of {ty} is not known here"))
                    );
                };
                sizes.push(b.vector_of(size).map_err(&misfit)?);
            }
            let sizes = b.join(&sizes).map_err(&misfit)?;
            let zero = b.constant(Tensor::splat(dtype, vec![], 0.0));
            let blank = b.op1(Op::Broadcast, &[zero, sizes]).map_err(&misfit)?;
            let first = b
                .ty(like)
                .as_tensor()
                .and_then(|t| t.shape.as_ref()?.first().cloned());
            let shape = first.into_iter().chain(dims).collect();
            let stated = TensorType {
                dtype,
                shape: Some(shape),
            };
            b.refine_type(blank, stated.into()).map_err(misfit)?;
            values.push(blank);
        }
        let columns = element.columns(&heddle_ir::Dim::UNKNOWN);
        Ok(self.unflatten(&columns, &mut values.into_iter()))
    }

    /// Columns with one row replaced.
    fn with_row(
        &mut self,
        columns: &Val<'a>,
        row: Val<'a>,
        at: Value,
        span: Span,
    ) -> Result<Val<'a>> {
        let row = self.row(&row, span)?;
        let mut rows = vec![];
        self.flatten(&row, &mut rows);
        let mut rows = rows.into_iter();
        let misfit = self.misfit(span);
        let at = self.frame.b.vector_of(at).map_err(misfit)?;
        self.each_array(columns, span, &mut |b, v| {
            let row = rows.next().unwrap_or(v);
            let rank = b.rank(v).unwrap_or(1);
            let starts = match rank {
                1 => at,
                n => {
                    let zeros = b.i64s(&vec![0; n - 1]);
                    b.join(&[at, zeros])?
                }
            };
            b.op1(Op::UpdateSlice, &[v, row, starts])
        })
    }
}
