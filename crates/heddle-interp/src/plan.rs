//! Last uses of values: a value is moved to its last user, not cloned, so that memory is freed
//! early and a kernel that gets the only owner updates in place.

use std::collections::HashSet;
use std::rc::Rc;

use heddle_ir::{Entity, Function, Inst, Op, Region, Value};

/// The last uses of a function's values.
pub struct Plan {
    insts: Vec<Rc<InstPlan>>,
    regions: Vec<Rc<RegionPlan>>,
}

/// Last uses at an instruction.
#[derive(Default)]
pub struct InstPlan {
    /// For each operand, true at the value's last use.
    pub last: Vec<bool>,
    /// Values to drop after it: unused results, and values that its regions used last.
    pub after: Vec<Value>,
}

/// Last uses at a region's ends.
#[derive(Default)]
pub struct RegionPlan {
    /// Values to drop before the first instruction.
    pub start: Vec<Value>,
    /// For each yielded value, true at its last use.
    pub last: Vec<bool>,
}

impl Plan {
    /// The plan of a function.
    pub fn new(f: &Function) -> Plan {
        let mut planner = Planner {
            f,
            insts: vec![Rc::default(); f.insts.len()],
            regions: vec![Rc::default(); f.regions.len()],
            home: vec![None; f.values.len()],
            captured: vec![HashSet::new(); f.regions.len()],
        };
        planner.locate(f.body);
        planner.region(f.body, &HashSet::new());
        Plan {
            insts: planner.insts,
            regions: planner.regions,
        }
    }

    /// The plan of an instruction.
    pub fn inst(&self, inst: Inst) -> Rc<InstPlan> {
        self.insts[inst.index()].clone()
    }

    /// The plan of a region.
    pub fn region(&self, region: Region) -> Rc<RegionPlan> {
        self.regions[region.index()].clone()
    }
}

struct Planner<'a> {
    f: &'a Function,
    insts: Vec<Rc<InstPlan>>,
    regions: Vec<Rc<RegionPlan>>,
    /// The region that defines a value.
    home: Vec<Option<Region>>,
    /// Values that a region, with the regions in it, captures.
    captured: Vec<HashSet<Value>>,
}

impl Planner<'_> {
    fn locate(&mut self, region: Region) {
        let data = &self.f.regions[region];
        let mut used: HashSet<Value> = data.yields.iter().copied().collect();
        for &param in &data.params {
            self.home[param.index()] = Some(region);
        }
        for &inst in &data.insts {
            let data = &self.f.insts[inst];
            for &result in &data.results {
                self.home[result.index()] = Some(region);
            }
            used.extend(&data.args);
            for &inner in &data.regions {
                self.locate(inner);
                used.extend(&self.captured[inner.index()]);
            }
        }
        used.retain(|v| self.home[v.index()] != Some(region));
        self.captured[region.index()] = used;
    }

    /// Plans a region which, besides its own values, may drop those in `inherited`.
    fn region(&mut self, region: Region, inherited: &HashSet<Value>) {
        let f = self.f;
        let data = &f.regions[region];
        let mut used = HashSet::new();
        let last = self.ends(region, inherited, &data.yields, &mut used);
        for &inst in data.insts.iter().rev() {
            self.inst(region, inherited, inst, &mut used);
        }
        let idle = |v: &Value| !used.contains(v);
        let start = data.params.iter().chain(inherited).copied().filter(idle);
        self.regions[region.index()] = Rc::new(RegionPlan {
            start: start.collect(),
            last,
        });
    }

    fn inst(
        &mut self,
        region: Region,
        inherited: &HashSet<Value>,
        inst: Inst,
        used: &mut HashSet<Value>,
    ) {
        let data = &self.f.insts[inst];
        let mut after = data.results.clone();
        after.retain(|v| !used.contains(v));
        // Captured values at their last use: a branch drops them itself, a loop's body must not.
        let mut captured = HashSet::new();
        for inner in &data.regions {
            captured.extend(&self.captured[inner.index()]);
        }
        captured.retain(|v| self.owns(region, inherited, *v) && used.insert(*v));
        match data.op {
            Op::If => data.regions.iter().for_each(|r| self.region(*r, &captured)),
            _ => {
                after.extend(&captured);
                let none = HashSet::new();
                data.regions.iter().for_each(|r| self.region(*r, &none));
            }
        }
        let last = self.ends(region, inherited, &data.args, used);
        self.insts[inst.index()] = Rc::new(InstPlan { last, after });
    }

    /// For each use, true if it is the last one, given the values used later.
    fn ends(
        &self,
        region: Region,
        inherited: &HashSet<Value>,
        uses: &[Value],
        used: &mut HashSet<Value>,
    ) -> Vec<bool> {
        let mut last: Vec<_> = uses
            .iter()
            .rev()
            .map(|v| self.owns(region, inherited, *v) && used.insert(*v))
            .collect();
        last.reverse();
        last
    }

    fn owns(&self, region: Region, inherited: &HashSet<Value>, v: Value) -> bool {
        self.home[v.index()] == Some(region) || inherited.contains(&v)
    }
}
