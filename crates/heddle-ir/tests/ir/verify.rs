//! What the verifier says of programs that the text form cannot write.

use std::sync::Arc;

use heddle_ir::text::parse;
use heddle_ir::{
    DType, Dim, Entity, FuncId, Function, Inst, MAX_NESTING, Module, Op, Region, RegionData,
    Signature, Tensor, Type, Value, ValueDef, verify,
};

/// A loop with a branch in it, and a call.
const PROGRAM: &str = "
fn @main(%x: f32[n], %n: i64[]) -> (%y: f32[n]) {
  %h, %s = loop %i trip %n carry (%c = %x) {
    %b = lt(%i, 3)
    %d = if %b { %e = neg(%c) yield %e } else { yield %c }
    continue carry %d stack %i
  }
  %y = call @f(%h)
  return %y
}
fn @f(%a: f32[k]) -> (%b: f32[k]) { %b = abs(%a) return %b }
";

/// What is said after `break_it` has had its way with the entry function.
fn said(break_it: impl FnOnce(&mut Function)) -> Vec<String> {
    said_of_module(|m| {
        let entry = m.entry_id().expect("an entry");
        break_it(&mut m.functions[entry]);
    })
}

fn said_of_module(break_it: impl FnOnce(&mut Module)) -> Vec<String> {
    let mut module = parse(PROGRAM).expect("a program");
    assert_eq!(verify(&module), Ok(()));
    break_it(&mut module);
    let errors = verify(&module).expect_err("a broken program");
    errors.iter().map(ToString::to_string).collect()
}

fn find(f: &Function, name: &str) -> Value {
    let named = |v: &Value| f.values[*v].name.as_deref() == Some(name);
    f.values.keys().find(named).expect("a value of this name")
}

fn inst(f: &Function, name: &str) -> Inst {
    f.def_inst(find(f, name)).expect("a result")
}

#[track_caller]
fn has(errors: &[String], part: &str) {
    assert!(
        errors.iter().any(|e| e.contains(part)),
        "{part:?} is not said in {errors:#?}"
    );
}

#[test]
fn modules() {
    has(&said_of_module(|m| m.entries.clear()), "no entry");
    has(
        &said_of_module(|m| m.entries["main"] = FuncId::new(9)),
        "the entry `main`, f9, does not exist",
    );
    has(
        &said_of_module(|m| m.entries.extend([("g".into(), FuncId::new(7))])),
        "the entry `g`, f7, does not exist",
    );
    let errors = said_of_module(|m| {
        m.declare(Signature {
            name: "f".into(),
            ..Signature::default()
        });
    });
    has(&errors, "@f: another function has this name");
    let errors = said_of_module(|m| m.functions.truncate(1));
    has(&errors, "function f1 does not exist");
}

#[test]
fn signatures() {
    let change = |f: &mut Function, change: &dyn Fn(&mut Signature)| {
        change(Arc::make_mut(&mut f.sig));
    };
    let errors = said(|f| change(f, &|s| drop(s.params.pop())));
    has(&errors, "the signature has 1 parameters, the body 2");
    let errors = said(|f| change(f, &|s| s.results.clear()));
    has(&errors, "the signature has 0 results, the body yields 1");
    let errors = said(|f| change(f, &|s| s.origin = Some(s.name.as_str().into())));
    has(&errors, "is a specialisation of itself");
    let errors = said(|f| change(f, &|s| s.params[1].1 = Type::scalar(DType::I32)));
    has(&errors, "parameter `n` is i32[], but i64[] in the body");
    let errors = said(|f| change(f, &|s| s.results[0].1 = Type::scalar(DType::F32)));
    has(&errors, "result `y` is f32[], but the body yields f32[n]");
    let errors = said(|f| change(f, &|s| s.params[1].0 = "x".into()));
    has(&errors, "two parameters are named `x`");
}

#[test]
fn ids_that_do_not_exist() {
    let ghost = Value::new(99);
    let errors = said(|f| {
        let i = inst(f, "b");
        f.insts[i].args[0] = ghost;
    });
    has(
        &errors,
        "`lt` (i1, line 4, column 10): uses v99, which does not exist",
    );
    let errors = said(|f| {
        let i = inst(f, "b");
        f.insts[i].results[0] = ghost;
    });
    has(&errors, "defines v99, which does not exist");
    let errors = said(|f| f.regions[f.body].yields[0] = ghost);
    has(&errors, "yields v99, which does not exist");
    let errors = said(|f| f.regions[f.body].insts.push(Inst::new(99)));
    has(&errors, "instruction i99 does not exist");
    let errors = said(|f| {
        let i = inst(f, "d");
        f.insts[i].regions[1] = Region::new(99);
    });
    has(&errors, "region r99 does not exist");
    let errors = said(|f| f.body = Region::new(99));
    has(&errors, "the body r99 does not exist");
}

#[test]
fn definitions() {
    let errors = said(|f| {
        let i = inst(f, "b");
        f.regions[f.body].insts.push(i);
    });
    has(&errors, "the instruction is in two places");
    let errors = said(|f| {
        let (i, b) = (inst(f, "e"), find(f, "b"));
        f.insts[i].results[0] = b;
    });
    has(&errors, "%b is defined twice");
    let errors = said(|f| {
        let b = find(f, "b");
        f.values[b].def = ValueDef::Result(Inst::new(0), 7);
    });
    has(
        &errors,
        "%b is Result(i1, 0), but claims to be Result(i0, 7)",
    );
    let errors = said(|f| {
        let i = inst(f, "d");
        let region = f.insts[i].regions[0];
        f.insts[i].regions[1] = region;
    });
    has(&errors, "is in two places");
    let errors = said(|f| {
        let i = inst(f, "d");
        let body = f.body;
        f.insts[i].regions[1] = body;
    });
    has(&errors, "is in two places");
}

#[test]
fn scopes() {
    let errors = said(|f| {
        let e = find(f, "e");
        f.regions[f.body].yields[0] = e;
    });
    has(&errors, "yields %e, which is not defined there");
    let errors = said(|f| {
        let body = f.body;
        f.regions[body].insts.reverse();
    });
    has(&errors, "uses %h, which is not defined there");
    let errors = said(|f| {
        let (i, d) = (inst(f, "e"), find(f, "d"));
        f.insts[i].args[0] = d;
    });
    has(&errors, "uses %d, which is not defined there");
}

#[test]
fn types() {
    let set = |name: &'static str, ty: Type| {
        said(move |f| {
            let v = find(f, name);
            f.values[v].ty = ty;
        })
    };
    let f32s = |dims: Vec<Dim>| Type::tensor(DType::F32, dims);
    has(
        &set("b", Type::scalar(DType::I64)),
        "`lt` (i1, line 4, column 10): %b is bool[], not i64[]",
    );
    has(
        &set("e", f32s(vec![Dim::sym("q")])),
        "%e has a size `q`, which is no axis of a parameter",
    );
    has(
        &set("e", f32s(vec![Dim::constant(-2)])),
        "%e has a size of -2",
    );
    has(
        &set("e", f32s(vec![Dim::from(1); 65])),
        "%e has 65 axes, more than 64",
    );
    has(
        &set("c", f32s(vec![Dim::from(3)])),
        "carried value 0 starts as f32[n], but the body takes f32[3]",
    );
    let mut deep = Type::scalar(DType::F32);
    for _ in 0..=MAX_NESTING {
        deep = Type::Opt(Box::new(deep));
    }
    has(
        &set("e", deep),
        "the type of %e nests deeper than 256 levels",
    );
    let errors = said(|f| {
        let i = inst(f, "e");
        f.insts[i].op = Op::Concat { axis: 1 };
    });
    has(&errors, "axis 1 of 1");
    let errors = said(|f| {
        let i = inst(f, "e");
        f.insts[i].args.clear();
    });
    has(&errors, "takes 1 operands, but 0 are given");
    let errors = said(|f| {
        let i = inst(f, "h");
        f.insts[i].results.pop();
    });
    has(&errors, "has 2 results, but 1 are given");
    let errors = said(|f| {
        let i = inst(f, "d");
        f.insts[i].regions.pop();
    });
    has(&errors, "has 2 regions, not 1");
}

#[test]
fn constants() {
    let constant = |t: Tensor, ty: Type| {
        said(move |f| {
            let i = f.add_inst(Op::Const(t), vec![], vec![], vec![ty], None);
            let body = f.body;
            f.regions[body].insts.push(i);
        })
    };
    let one = Tensor::scalar(1.0f32);
    has(
        &constant(one, Type::unranked(DType::F32)),
        "is f32[], not f32[..]",
    );
    let two = Tensor::new(DType::Bool, vec![1], vec![2].into()).expect("a byte");
    has(
        &constant(two, Type::fixed(DType::Bool, &[1])),
        "neither 0 nor 1",
    );
}

#[test]
fn dead_instructions_are_not_looked_at() {
    let mut module = parse(PROGRAM).expect("a program");
    let entry = module.entry_id().expect("an entry");
    let f = &mut module.functions[entry];
    f.add_inst(Op::Dot, vec![Value::new(99)], vec![], vec![], None);
    assert_eq!(verify(&module), Ok(()));
}

/// Nesting is bounded, and far more of it does not exhaust the stack.
#[test]
fn deep_nesting() {
    let nested = |levels: usize| {
        let mut f = Function::new(Signature {
            name: "main".into(),
            ..Signature::default()
        });
        let mut region = f.body;
        for _ in 0..levels {
            let cond = f.add_inst(
                Op::Const(Tensor::splat(DType::Bool, vec![], 1.0)),
                vec![],
                vec![],
                vec![Type::scalar(DType::Bool)],
                None,
            );
            let cond_value = f.insts[cond].results[0];
            let inner = f.regions.push(RegionData::default());
            let other = f.regions.push(RegionData::default());
            let regions = vec![inner, other];
            let branch = f.add_inst(Op::If, vec![cond_value], regions, vec![], None);
            f.regions[region].insts = vec![cond, branch];
            region = inner;
        }
        let mut module = Module::default();
        let entry = module.functions.push(f);
        module.set_entry(entry);
        module
    };
    assert_eq!(verify(&nested(MAX_NESTING)), Ok(()));
    for levels in [MAX_NESTING + 1, 100_000] {
        let errors = verify(&nested(levels)).expect_err("too deep");
        has(
            &[errors[0].to_string()],
            "regions nest deeper than 256 levels",
        );
    }
    let text = heddle_ir::text::print(&nested(MAX_NESTING));
    assert_eq!(
        heddle_ir::text::print(&parse(&text).expect("the deepest program")),
        text
    );
}
