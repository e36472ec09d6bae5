//! On planes that have a line of modules (TPU), ops do not say which module they are of: the time does. Here they are told,
//! so that one question has one form on every platform.

use foldhash::HashMap;

use super::{Innermost, Kind, KindId, Line, Plane, Platform, ProgramId, Strings, Text, Trace, number};

/// The line on which each event is one run of a module.
pub(crate) const MODULES_LINE: &str = "XLA Modules";

/// Runs of modules on a plane.
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
    /// From when to when, in picoseconds from the trace's zero.
    pub(crate) stretch: (i64, i64),
}

impl ModuleRuns {
    /// In the order of the plane's lines and events; none on a plane that has no line of modules.
    pub(crate) fn of(strings: &Strings, plane: &Plane) -> Self {
        let mut runs = Vec::new();
        for (number, line) in plane.lines.iter().enumerate().filter(|(_, line)| is_modules(strings, plane, line)) {
            let stretches = (0..line.len()).filter_map(|event| Some((event, line.stretch(event)?)));
            runs.extend(stretches.map(|(event, stretch)| Run { line: number, event, stretch }));
        }
        let stretches: Vec<(i64, i64)> = runs.iter().map(|run| run.stretch).collect();
        Self { innermost: Innermost::of(&stretches), runs }
    }

    /// The place of the run in which something starts: of several the one that started last.
    pub(crate) fn at(&self, start_ps: i64) -> Option<usize> {
        self.innermost.at(start_ps)
    }
}

/// Whether a line has modules, each event of which is one run.
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
    /// Gives events of planes that have a line of modules their module, where they name none themselves.
    pub(crate) fn name_modules(&mut self) {
        for plane in &mut self.planes {
            let is_modules: Vec<bool> = plane.lines.iter().map(|line| is_modules(&self.strings, plane, line)).collect();
            if !is_modules.contains(&true) {
                continue;
            }
            let mut renamed = Renamed::default();
            for (line, _) in plane.lines.iter_mut().zip(&is_modules).filter(|(_, is_modules)| **is_modules) {
                for kind in &mut line.kind {
                    let name = self.strings.get(self.kinds[kind.index()].name).to_owned();
                    let (module, program) = parse(&name);
                    *kind = renamed.kind(&mut self.kinds, *kind, (self.strings.intern(module), program));
                }
            }
            let runs = ModuleRuns::of(&self.strings, plane);
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
                        line.kind[event] = renamed.kind(&mut self.kinds, line.kind[event], module);
                    }
                }
            }
        }
    }
}

/// Kinds with a module, by the kind without.
#[derive(Default)]
struct Renamed {
    kinds: HashMap<(KindId, Text, Option<ProgramId>), KindId>,
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
