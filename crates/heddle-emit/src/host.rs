//! Writes the additional text for control flow on the host: each operator as a task with a
//! structure of arguments, and dispatches in place of calls.

use heddle_ir::Entity;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::OperatorId;

use crate::dialect::Dialect;
use crate::functions::Functions;
use crate::operator::{Arguments, Parameter};
use crate::text::Text;

/// The structure of an operator's arguments, and the task that reads it. For per-unit arrays the
/// structure holds that of unit 0 and the stride between units.
pub fn task(
    text: &mut Text,
    program: &UProgram,
    dialect: &Dialect,
    functions: &Functions,
    id: OperatorId,
) {
    let op = &program.operators[id];
    let args = Arguments::of(program, op);
    let k = id.index();
    text.line(format!("typedef struct op{k}_arguments {{"));
    for Parameter { ty, name, .. } in args.parameters(program, dialect, &op.body) {
        text.line(format!("{ty} {name};"));
    }
    for own in args.own(program) {
        text.line(format!("int64_t b{}_stride;", own.index()));
    }
    text.line(format!("}} op{k}_arguments;"));
    text.line(format!(
        "static int32_t op{k}_task(const heddle_env *env, int32_t worker, int32_t workers) {{"
    ));
    text.line(format!(
        "op{k}_arguments a = *(const op{k}_arguments *)env->arguments;"
    ));
    for own in args.own(program) {
        let (b, ty) = (own.index(), dialect.stored(program.buffers[own].dtype));
        text.line(format!(
            "a.b{b} = ({ty} *)((uint8_t *)a.b{b} + worker * a.b{b}_stride);"
        ));
    }
    text.line(functions.call(id, "a."));
    text.line("return heddle_poll(env);");
    text.line("}");
}

/// Runs an operator on all units and waits for them. `strides` are those of its per-unit arrays.
pub fn dispatch(text: &mut Text, program: &UProgram, id: OperatorId, strides: Vec<String>) {
    let mut values = Arguments::of(program, &program.operators[id]).names();
    values.extend(strides);
    let k = id.index();
    text.line("{");
    text.line(format!(
        "const op{k}_arguments a = {{{}}};",
        values.join(", ")
    ));
    text.line(format!(
        "HEDDLE_TRY(host->dispatch(host->self, op{k}_task, &a));"
    ));
    text.line("}");
}

/// Opens the function that one thread runs. The units' own function is empty.
pub fn open_main(text: &mut Text) {
    text.line("HEDDLE_MAIN {");
    text.line("(void)env, (void)worker, (void)workers;");
    text.line("return 0;");
    text.line("}");
    text.line("");
    text.line("HEDDLE_HOST_MAIN {");
    text.line("const int32_t worker = 0, workers = 1;");
    text.line("(void)worker, (void)workers;");
}
