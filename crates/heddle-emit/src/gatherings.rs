//! Writes arrays that all units gather: memory for what they give each other, and the gatherings themselves.

use heddle_ir::Entity;
use heddle_uprogram::program::{Gather, OperatorId};

use crate::functions::given;
use crate::program::Writer;

impl Writer<'_> {
    /// Words in which units give numbers, and the count of gatherings.
    pub(crate) fn begin_gathering(&mut self) {
        let (Some(word), Some(words)) = (self.layout.given, self.program.given_words()) else {
            return;
        };
        for line in [
            format!("uint64_t *const given = (uint64_t *)(env->scratch + env->table[{word}]);"),
            "uint32_t gathering = 0;".into(),
            format!(
                "HEDDLE_TRY(heddle_begin_gathering(env, worker, workers, given, {}));",
                2 * words
            ),
        ] {
            self.text.line(line);
        }
    }

    /// Runs an operator whose results all units gather.
    pub(crate) fn gather(&mut self, id: OperatorId, call: String) {
        let op = &self.program.operators[id];
        let to = op.body.store().buffer;
        let (Some(words), Some((grains, first)), Some(Gather { units, .. })) = (
            self.program.given_words(),
            op.grains(&self.program.pool),
            op.gathers(self.program),
        ) else {
            return;
        };
        let numbers = self.program.pool.as_int(self.program.buffers[to].len);
        let (numbers, b) = (numbers.unwrap_or(0), to.index());
        let given = given(self.program);
        let come = format!("{given} + {}", words - i64::from(units));
        self.text.line(format!(
            "HEDDLE_NEXT_GATHERING(gathering, given, {});",
            2 * words
        ));
        self.run(id, call);
        if grains < i64::from(units) {
            self.text.line(format!(
                "heddle_come({come}, gathering, worker, workers, {grains}, {first});"
            ));
        }
        let grains = grains.min(i64::from(units));
        self.text.line(format!(
            "HEDDLE_TRY(heddle_gather(env, {given}, gathering, b{b}, {numbers}, {come}, workers, {grains}, {first}));"
        ));
    }
}
