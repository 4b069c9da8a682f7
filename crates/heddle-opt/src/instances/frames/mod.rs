//! Recursion that follows from tensors, by frames.
//!
//! The functions of a recursion are [`cut`] at their calls of each other into blocks. An activation
//! is a frame: a row of arrays that hold what its later blocks need ([`slots`]), its instance, and
//! its caller's frame. An executor ([`drive`]) runs, of the blocks for which frames are ready, the
//! first in a fixed order, for all of these at once: it reads their rows, evaluates the block as a
//! [`Set`], writes rows back, and gives each frame its next block. A call makes a frame; at the
//! end of a function its results are written to places of the caller, which is ready when none of
//! its calls is open, and the frame is free for others.
//!
//! In the [order](order) of blocks, callees come before what follows a call and loops before what
//! follows them. So instances that come later, or iterate longer, are awaited.

mod choice;
mod cut;
mod drive;
mod graph;
mod live;
mod newest;
mod order;
mod own;
mod recursion;
mod saved;
mod slots;
mod state;
mod step;
mod stores;
mod tidy;

use heddle_ir::{FuncBuilder, FuncId};

use super::lane::Lane;
use super::set::Set;
use crate::batch::Result;
use drive::Driver;
use recursion::Recursion;
use slots::Slots;

impl Set<'_> {
    /// A call of a recursive function for all instances.
    pub(super) fn call_frames(
        &self,
        b: &mut FuncBuilder,
        callee: FuncId,
        args: &[Lane],
    ) -> Result<Vec<Lane>> {
        let recursion = Recursion::of(self.context, b, callee, args);
        let (blocks, entries) = cut::cut(&recursion)?;
        let (blocks, entries) = order::ordered(&recursion, blocks, entries);
        let (own, live) = own::of_instances(b, self, &recursion, args, &blocks)?;
        let slots = Slots::of(self.context, &recursion, &blocks, &live)?;
        let driver = Driver {
            recursion: &recursion,
            blocks: &blocks,
            entries: &entries,
            live: &live,
            slots: &slots,
            own: &own,
            top: self,
            args,
            limit: self
                .context
                .options
                .max_frames
                .map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
        };
        driver.run(b)
    }
}
