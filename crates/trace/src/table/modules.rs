//! On planes that have a line of modules (TPU), ops do not say which module they are of: the time does. Here they are told,
//! so that one question has one form on every platform.

use rustc_hash::FxHashMap;

use super::{Kind, KindId, Line, Plane, Platform, ProgramId, Strings, Text, Trace, number};

/// The line on which each event is one run of a module.
pub(crate) const MODULES_LINE: &str = "XLA Modules";

/// Runs of modules on a plane, in order of start.
#[derive(Debug, Default)]
pub(crate) struct ModuleRuns {
    runs: Vec<Run>,
}

/// One run of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    start_ps: i64,
    end_ps: i64,
    /// The event on the line of modules.
    pub(crate) event: usize,
}

impl ModuleRuns {
    pub(crate) fn of(modules: &Line) -> Self {
        let placed = (0..modules.len()).filter(|&event| modules.why_unplaced(event).is_none());
        let mut runs: Vec<Run> = placed
            .map(|event| {
                let start_ps = modules.start_ps[event];
                Run { start_ps, end_ps: start_ps + modules.duration_ps[event], event }
            })
            .collect();
        runs.sort_unstable();
        Self { runs }
    }

    /// The run in which something starts: of several the one that started last.
    pub(crate) fn at(&self, start_ps: i64, duration_ps: i64) -> Option<&Run> {
        let before = self.runs.partition_point(|run| run.start_ps <= start_ps);
        let run = self.runs.get(before.checked_sub(1)?)?;
        (start_ps < run.end_ps || (start_ps == run.end_ps && duration_ps == 0)).then_some(run)
    }
}

/// The line of modules of a device's plane, by its number.
pub(crate) fn modules_line(strings: &Strings, plane: &Plane) -> Option<usize> {
    let is_device = matches!(plane.platform, Platform::Gpu | Platform::Tpu | Platform::OtherDevice);
    plane.lines.iter().position(|line| is_device && strings.get(line.name) == MODULES_LINE)
}

/// `jit_step(123)` is the module `jit_step` of compilation 123.
pub(crate) fn parse(name: &str) -> (&str, Option<ProgramId>) {
    let parts = name.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    let Some((module, program)) = parts else { return (name, None) };
    let unsigned = program.parse::<u64>().ok().map(ProgramId::from);
    match unsigned.or_else(|| program.parse::<i64>().ok().map(ProgramId::from)) {
        Some(program) => (module, Some(program)),
        None => (name, None),
    }
}

impl Trace {
    /// Gives events of planes that have a line of modules their module, where they name none themselves.
    pub(crate) fn name_modules(&mut self) {
        for plane in 0..self.planes.len() {
            if let Some(line) = modules_line(&self.strings, &self.planes[plane]) {
                self.name_modules_of(plane, line);
            }
        }
    }

    fn name_modules_of(&mut self, plane: usize, modules_line: usize) {
        let mut renamed = Renamed::default();
        let modules = &mut self.planes[plane].lines[modules_line];
        for event in 0..modules.len() {
            let name = self.kinds[modules.kind[event].index()].name;
            let (module, program) = parse(self.strings.get(name));
            let module = module.to_owned();
            let module = (self.strings.intern(&module), program);
            modules.kind[event] = renamed.kind(&mut self.kinds, modules.kind[event], module);
        }
        let runs = ModuleRuns::of(modules);
        let run_modules: Vec<Option<(Text, Option<ProgramId>)>> = modules
            .kind
            .iter()
            .map(|kind| {
                let kind = &self.kinds[kind.index()];
                Some((kind.module?, kind.program))
            })
            .collect();
        for (number, line) in self.planes[plane].lines.iter_mut().enumerate() {
            if number == modules_line {
                continue;
            }
            for event in 0..line.len() {
                // What has no place in time is in no run.
                let Some(start) = line.event(event).and_then(|event| event.start) else { continue };
                let run = runs.at(start.get(), line.duration_ps[event]);
                if let Some(module) = run.and_then(|run| run_modules[run.event]) {
                    line.kind[event] = renamed.kind(&mut self.kinds, line.kind[event], module);
                }
            }
        }
    }
}

/// Kinds with a module, by the kind without.
#[derive(Default)]
struct Renamed {
    kinds: FxHashMap<(KindId, Text, Option<ProgramId>), KindId>,
}

impl Renamed {
    fn kind(&mut self, kinds: &mut Vec<Kind>, of: KindId, (module, program): (Text, Option<ProgramId>)) -> KindId {
        if kinds[of.index()].module.is_some() {
            return of;
        }
        *self.kinds.entry((of, module, program)).or_insert_with(|| {
            let kind = &kinds[of.index()];
            let program = kind.program.or(program);
            let kind = Kind { module: Some(module), is_module_by_time: true, program, ..kind.clone() };
            kinds.push(kind);
            KindId(number(kinds.len() - 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_with_its_compilation() {
        assert_eq!(parse("jit_step(18446744073709551615)"), ("jit_step", Some(u64::MAX.into())));
        assert_eq!(parse("jit_step(-3)"), ("jit_step", Some((-3_i64).into())));
        assert_eq!(parse("jit_f(x)"), ("jit_f(x)", None));
        assert_eq!(parse("jit_step"), ("jit_step", None));
    }
}
