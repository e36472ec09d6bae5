//! Finds the module of each op by time, on planes with a line of modules (TPU), where ops do not name their module.
//! Afterwards every platform has the module in the kind of the event.

use foldhash::HashMap;

use super::{Innermost, Kind, KindId, Line, Plane, Platform, ProgramId, Strings, Text, Trace, number};

/// The name of the line on which each event is one run of a module.
pub(crate) const MODULES_LINE: &str = "XLA Modules";

/// The runs of modules on a plane.
#[derive(Debug, Default)]
pub(crate) struct ModuleRuns {
    pub(crate) runs: Vec<Run>,
    innermost: Innermost,
}

/// One run of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The line of modules and the event on it.
    pub(crate) line: usize,
    pub(crate) event: usize,
    /// Start and end, in picoseconds from the zero of the trace.
    pub(crate) interval: (i64, i64),
}

impl ModuleRuns {
    /// The runs in the order of the plane's lines and events. Empty if the plane has no line of modules.
    pub(crate) fn new(strings: &Strings, plane: &Plane) -> Self {
        let mut runs = Vec::new();
        for (number, line) in plane.lines.iter().enumerate().filter(|(_, line)| is_modules(strings, plane, line)) {
            let intervals = (0..line.len()).filter_map(|event| Some((event, line.interval(event)?)));
            runs.extend(intervals.map(|(event, interval)| Run { line: number, event, interval }));
        }
        let intervals: Vec<(i64, i64)> = runs.iter().map(|run| run.interval).collect();
        Self { innermost: Innermost::new(&intervals), runs }
    }

    /// The index of the run that is open at a time; if several are, the one that started last.
    pub(crate) fn at(&self, start_ps: i64) -> Option<usize> {
        self.innermost.at(start_ps)
    }
}

/// Whether each event of a line is one run of a module.
pub(crate) fn is_modules(strings: &Strings, plane: &Plane, line: &Line) -> bool {
    let is_device = matches!(plane.platform, Platform::Gpu | Platform::Tpu | Platform::OtherDevice);
    is_device && strings.get(line.name) == MODULES_LINE
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
    /// Sets the module of events that do not name it, on planes with a line of modules.
    pub(crate) fn name_modules(&mut self) {
        for plane in &mut self.planes {
            let is_modules: Vec<bool> = plane.lines.iter().map(|line| is_modules(&self.strings, plane, line)).collect();
            if !is_modules.contains(&true) {
                continue;
            }
            let mut with_module = ModuleKinds::default();
            for (line, _) in plane.lines.iter_mut().zip(&is_modules).filter(|(_, is_modules)| **is_modules) {
                for kind in &mut line.kind {
                    let name = self.strings.get(self.kinds[kind.index()].name).to_owned();
                    let (module, program) = parse(&name);
                    *kind = with_module.kind(&mut self.kinds, *kind, (self.strings.intern(module), program));
                }
            }
            let runs = ModuleRuns::new(&self.strings, plane);
            let modules: Vec<Option<(Text, Option<ProgramId>)>> = runs
                .runs
                .iter()
                .map(|run| {
                    let kind = &self.kinds[plane.lines[run.line].kind[run.event].index()];
                    Some((kind.module?, kind.program))
                })
                .collect();
            for (line, _) in plane.lines.iter_mut().zip(&is_modules).filter(|(_, is_modules)| !**is_modules) {
                for event in 0..line.len() {
                    let run = line.start(event).and_then(|start| runs.at(start));
                    if let Some(module) = run.and_then(|run| modules[run]) {
                        line.kind[event] = with_module.kind(&mut self.kinds, line.kind[event], module);
                    }
                }
            }
        }
    }
}

/// Kinds with a module, by the kind without it.
#[derive(Default)]
struct ModuleKinds {
    kinds: HashMap<(KindId, Text, Option<ProgramId>), KindId>,
}

impl ModuleKinds {
    fn kind(&mut self, kinds: &mut Vec<Kind>, without: KindId, (module, program): (Text, Option<ProgramId>)) -> KindId {
        if kinds[without.index()].module.is_some() {
            return without;
        }
        *self.kinds.entry((without, module, program)).or_insert_with(|| {
            let kind = &kinds[without.index()];
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
    fn a_module_name_contains_its_compilation() {
        assert_eq!(parse("jit_step(18446744073709551615)"), ("jit_step", Some(u64::MAX.into())));
        assert_eq!(parse("jit_step(-3)"), ("jit_step", Some((-3_i64).into())));
        assert_eq!(parse("jit_f(x)"), ("jit_f(x)", None));
        assert_eq!(parse("jit_step"), ("jit_step", None));
    }
}
