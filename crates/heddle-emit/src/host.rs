//! Writes what a program has in addition when the host runs its control flow: each operator as a task with its arguments in
//! a structure, and dispatches in place of calls.

use heddle_ir::Entity;
use heddle_task::UProgram;
use heddle_task::program::OperatorId;

use crate::dialect::Dialect;
use crate::functions::Functions;
use crate::operator::Arguments;
use crate::text::Text;

/// The operator's arguments as a structure, and the task that takes them from there.
pub fn task(
    text: &mut Text,
    program: &UProgram,
    dialect: &Dialect,
    functions: &Functions,
    id: OperatorId,
) {
    let op = &program.operators[id];
    let args = Arguments::of(program, op);
    let types = args.types(program, dialect, op.body.store().buffer);
    let k = id.index();
    text.line(format!("typedef struct op{k}_arguments {{"));
    for (ty, name) in types.iter().zip(args.names()) {
        text.line(format!("{ty} {name};"));
    }
    text.line(format!("}} op{k}_arguments;"));
    text.line(format!(
        "static int32_t op{k}_task(const heddle_env *env, int32_t worker, int32_t workers) {{"
    ));
    text.line(format!("const op{k}_arguments *a = env->arguments;"));
    text.line(functions.call(id, "a->"));
    text.line("return heddle_poll(env);");
    text.line("}");
}

/// Runs an operator on all units and waits for them.
pub fn dispatch(text: &mut Text, program: &UProgram, id: OperatorId) {
    let names = Arguments::of(program, &program.operators[id]).names();
    let k = id.index();
    text.line("{");
    text.line(format!(
        "const op{k}_arguments a = {{{}}};",
        names.join(", ")
    ));
    text.line(format!(
        "HEDDLE_TRY(host->dispatch(host->self, op{k}_task, &a));"
    ));
    text.line("}");
}

/// Opens the function that one thread runs. The units' own does nothing.
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
