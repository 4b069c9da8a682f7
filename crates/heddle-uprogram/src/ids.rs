//! Ids of a program's entities.

heddle_ir::entity!(
    /// A name for memory; loops exchange the memory that names stand for.
    Buffer, "b"
);
heddle_ir::entity!(
    /// A variable of which each unit has its own copy.
    Local, "l"
);
heddle_ir::entity!(
    /// A uOperator.
    OperatorId, "op"
);
heddle_ir::entity!(
    /// A procedure.
    ProcedureId, "proc"
);
heddle_ir::entity!(
    /// A call site.
    CallId, "call"
);
