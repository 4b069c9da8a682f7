//! Edits that passes make.

/// Lists the edits with their names.
macro_rules! edits {
    ($($variant:ident = $name:literal,)*) => {
        /// An edit of a pass or transformation, as [`Stats`](crate::Stats) count it. Rules of
        /// [`canonicalize`](crate::canonicalize) that stand in tables are counted under the names
        /// there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Edit {
            $(#[doc = $name] $variant,)*
        }

        impl Edit {
            /// All edits.
            pub const ALL: &[Edit] = &[$(Edit::$variant,)*];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Edit::$variant => $name,)*
                }
            }
        }
    };
}

impl From<Edit> for &'static str {
    fn from(edit: Edit) -> Self {
        edit.name()
    }
}

edits! {
    BoundSize = "bound size",
    KnownSize = "known size",
    EquatedSize = "size that is another one",
    KeptSize = "carried value that keeps its size",
    ConstantOperands = "constant operands",
    ConstantCondition = "constant condition",
    LoopWithoutIterations = "loop without iterations",
    NarrowerType = "narrower type",
    NarrowerRecursion = "narrower result of a recursion",
    NarrowerFunction = "narrower result of a function",
    InputRanked = "rank of an input",
    NarrowerContents = "narrower type of what a sequence or optional holds",
    CallInlined = "call of a function that does not recurse",
    CommonSubexpression = "common subexpression",
    ConstantMoved = "constant inside a region",
    CommonSize = "common size",
    Misfit = "operands that do not fit",
    FailureTyped = "failure of the other branch's type",
    RanksSeparated = "branch of several ranks",
    DeadInstruction = "dead instruction",
    UnusedIfResult = "unused result of an if",
    UnusedCarried = "unused carried value",
    UnusedScan = "unused stacked result",
    UnusedParameter = "unused parameter",
    UnusedResult = "unused result of a function",
    UncalledFunction = "uncalled function",
    BranchesAgree = "branches that agree",
    BranchesYieldCondition = "branches that yield the condition",
    ConditionInBranch = "condition inside its branch",
    ConditionImplied = "condition that follows from its branch",
    NumberInBranch = "number that its branch knows",
    CarriedCounter = "carried value that counts iterations",
    CarriedCopy = "carried value that is another one",
    CarriedInvariant = "carried value that stays the same",
    ConditionBounds = "condition that bounds iterations",
    ConditionCounts = "condition that counts iterations",
    ConditionTrue = "condition that is always true",
    SingleIteration = "loop of one iteration",
    TripCount = "number of iterations",
    EndlessTripCount = "trip count without end",
    DotSplit = "contraction of operands side by side",
    ConvolutionSplit = "transposed convolution by phases",
    DotsStacked = "contractions of one operand",
    BranchesMerged = "computed in both branches",
    LoopInvariant = "loop invariant",
    LoopUnrolled = "loop unrolled",
    ProductTabulated = "product of a table",
    BoxUpdate = "an update of a box",
    ZeroIterationPeeled = "first iteration with zeros",
    ZeroProduct = "product with zeros",
    SplitOpened = "split into a known number of parts",
    ElementLookedUp = "element of equal ones looked up",
    BranchOpened = "branch that gives known sequences",
    SequenceLoopUnrolled = "loop over sequences unrolled",
    ElementsCarried = "elements of a sequence carried",
    PartsCarried = "parts of a stack carried",
    AppendSunk = "append behind a branch",
    ScanListed = "stacked result as a sequence",
    OptionalsOpened = "optionals as flags and values",
    SequencesFlattened = "sequences as arrays",
    TextFlattened = "text as bytes, offsets and numbers",
    FoldReduced = "fold of terms as a reduction",
    LoopLeveled = "loop level by level",
    RecursionLeveled = "recursion level by level",
    LoopDistributed = "loop distributed",
    Batched = "contraction over all iterations",
    LoopChunked = "loop in chunks",
    ConditionChunked = "loop with a condition in chunks",
    LayersPipelined = "layers pipelined",
}
