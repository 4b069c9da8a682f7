//! Writes arrays that units gather: memory for what they give each other, and the gatherings themselves.

use heddle_ir::Entity;
use heddle_uprogram::UProgram;
use heddle_uprogram::program::{Gather, OperatorId};

use crate::program::Writer;

/// The count of gatherings of all units, and of those of a unit's team.
fn count(gather: Gather) -> &'static str {
    match gather.team {
        Some(_) => "gathering_in_team",
        None => "gathering",
    }
}

/// The words of the present gathering, and its count.
pub(crate) fn given(program: &UProgram, gather: Gather) -> (String, &'static str) {
    let given = program.given().unwrap_or_default();
    let (each, count) = (given.each(gather.team), count(gather));
    let first = match given.first(gather.team) {
        0 => String::new(),
        first => format!(" + {first}"),
    };
    (format!("given{first} + ({count} & 1) * {each}"), count)
}

impl Writer<'_> {
    /// Words in which units give numbers, and the counts of gatherings.
    pub(crate) fn begin_gathering(&mut self) {
        let (Some(word), Some(given)) = (self.layout.given, self.program.given()) else {
            return;
        };
        self.text.line(format!(
            "uint64_t *const given = (uint64_t *)(env->scratch + env->table[{word}]);"
        ));
        if given.of_all > 0 {
            self.text.line("uint32_t gathering = 0;");
        }
        if given.of_team > 0 {
            self.text.line("uint32_t gathering_in_team = 0;");
        }
        self.text
            .line(format!("HEDDLE_BEGIN_GATHERING(given, {});", given.words()));
    }

    /// Runs an operator whose results its units gather.
    pub(crate) fn gather(&mut self, id: OperatorId, gather: Gather, call: String) {
        let op = &self.program.operators[id];
        let to = op.body.store().buffer;
        let (Some(given_words), Some((grains, first))) =
            (self.program.given(), op.grains(&self.program.pool))
        else {
            return;
        };
        let numbers = self.program.pool.as_int(self.program.buffers[to].len);
        let (numbers, b) = (numbers.unwrap_or(0), to.index());
        let (given, count) = given(self.program, gather);
        let (each, most) = (
            given_words.each(gather.team),
            i64::from(gather.most_units()),
        );
        let come = format!("{given} + {}", each - most);
        let (next, area) = match gather.team {
            Some(_) => ("HEDDLE_NEXT_TEAM_GATHERING", given_words.first(gather.team)),
            None => ("HEDDLE_NEXT_GATHERING", 0),
        };
        let area = match area {
            0 => "given".to_owned(),
            area => format!("given + {area}"),
        };
        self.text
            .line(format!("{next}({count}, {area}, {});", 2 * each));
        self.run(id, call);
        if grains < most {
            self.text.line(format!(
                "heddle_come({come}, {count}, worker, workers, {grains}, {first});"
            ));
        }
        let grains = grains.min(most);
        self.text.line(format!(
            "HEDDLE_TRY(heddle_gather(env, {given}, {count}, b{b}, {numbers}, {come}, workers, {grains}, {first}));"
        ));
    }
}
