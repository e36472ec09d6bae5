//! Computes the work in each named scope, from the paths of ops, such as `jit(step)/layer_0/dot_general`.

use ergometer_units::Picos;
use foldhash::HashMap;
use rayon::prelude::*;

use super::account::Account;
use super::device::{Device, DeviceId, EventSelection};
use super::filter::Filter;
use super::grouping::{Accounts, Grouping, share};
use crate::table::{Line, Trace};

/// Deeper paths are cut, because each level takes one pass over the events.
const DEEPEST: usize = 32;

/// The work of a device in one named scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    /// The device.
    pub device: DeviceId,
    /// The path of the scope; `None` for work without a path.
    pub path: Option<String>,
    /// The number of scopes around it.
    pub depth: usize,
    /// The times of all work in it, including nested scopes.
    pub account: Account,
    /// The part of its self time outside nested scopes.
    pub own_time: Picos,
    /// Its self time as a share of all work on the device.
    pub share: Option<f64>,
}

/// All named scopes, by device, each followed by its nested scopes, the longest first.
#[must_use]
pub fn scopes(trace: &Trace, filter: &Filter) -> Vec<Scope> {
    let paths: Vec<Vec<String>> = trace
        .kinds()
        .iter()
        .map(|kind| kind.scope_path().map_or_else(Vec::new, |path| prefixes(trace.text(path))))
        .collect();
    let selection = EventSelection::new(trace, filter);
    Device::all(trace, filter).par_iter().flat_map_iter(|device| device_scopes(device, &paths, &selection)).collect()
}

fn device_scopes(device: &Device<'_>, paths: &[Vec<String>], selection: &EventSelection) -> Vec<Scope> {
    let deepest = paths.iter().map(Vec::len).max().unwrap_or(0);
    let mut scopes = Vec::new();
    for depth in 0..deepest.max(1) {
        let mut names: Vec<Option<&str>> = Vec::new();
        let mut places: HashMap<Option<&str>, usize> = HashMap::default();
        let groups: Vec<Option<usize>> = paths
            .iter()
            .map(|prefixes| {
                let name = prefixes.get(depth).map(String::as_str);
                // Work without a path is one row on the first level.
                (name.is_some() || (depth == 0 && prefixes.is_empty())).then(|| {
                    *places.entry(name).or_insert_with(|| {
                        names.push(name);
                        names.len() - 1
                    })
                })
            })
            .collect();
        let group = |_: usize, line: &Line, event: usize| {
            if selection.has(line, event) { groups[line.kind[event].index()] } else { None }
        };
        let Accounts { accounts, all_self } = Grouping { device, count: names.len(), group }.accounts();
        scopes.extend(accounts.into_iter().map(|(group, account)| Scope {
            device: device.id,
            path: names[group].map(str::to_owned),
            depth,
            own_time: account.self_time,
            share: share(account.self_time, all_self),
            account,
        }));
    }
    sorted_by_nesting(scopes)
}

/// Sorts scopes: each before its nested scopes, the longest of siblings first.
fn sorted_by_nesting(mut scopes: Vec<Scope>) -> Vec<Scope> {
    scopes.sort_by(|left, right| {
        let longest = right.account.self_time.cmp(&left.account.self_time);
        left.depth.cmp(&right.depth).then(longest).then_with(|| left.path.cmp(&right.path))
    });
    let mut children: HashMap<Option<String>, Vec<Scope>> = HashMap::default();
    let mut roots = Vec::new();
    for scope in scopes {
        match scope.path.as_deref().and_then(|path| parent(path)) {
            Some(parent) => children.entry(Some(parent.to_owned())).or_default().push(scope),
            None => roots.push(scope),
        }
    }
    let mut ordered = Vec::new();
    let mut waiting: Vec<Scope> = roots.into_iter().rev().collect();
    while let Some(mut scope) = waiting.pop() {
        if scope.path.is_some() {
            let inner = children.remove(&scope.path).unwrap_or_default();
            let inner_ps = inner.iter().fold(0_i64, |sum, scope| sum.saturating_add(scope.account.self_time.get()));
            scope.own_time = Picos::new(scope.account.self_time.get().saturating_sub(inner_ps));
            waiting.extend(inner.into_iter().rev());
        }
        ordered.push(scope);
    }
    ordered
}

fn parent(path: &str) -> Option<&str> {
    separators(path).last().map(|at| &path[..at]).filter(|parent| !parent.is_empty())
}

/// All prefixes of a path: `a/b/c` gives `a`, `a/b` and `a/b/c`.
fn prefixes(path: &str) -> Vec<String> {
    let path = path.trim_end_matches([':', '/']);
    if path.is_empty() {
        return Vec::new();
    }
    let ends = separators(path).chain([path.len()]).filter(|&end| end > 0);
    ends.take(DEEPEST).map(|end| path[..end].to_owned()).collect()
}

/// The positions of slashes outside parentheses.
fn separators(path: &str) -> impl Iterator<Item = usize> {
    let mut open = 0_i32;
    path.char_indices().filter_map(move |(at, character)| {
        match character {
            '(' => open += 1,
            ')' => open = (open - 1).max(0),
            '/' if open == 0 => return Some(at),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_outside_parentheses() {
        assert_eq!(prefixes("jit(f)/layer(a/b)/dot:"), ["jit(f)", "jit(f)/layer(a/b)", "jit(f)/layer(a/b)/dot"]);
        assert_eq!(prefixes(""), Vec::<String>::new());
        assert_eq!(prefixes("/a"), ["/a"]);
        assert_eq!(parent("jit(f)/layer(a/b)/dot"), Some("jit(f)/layer(a/b)"));
        assert_eq!(parent("jit(f/g)"), None);
        assert_eq!(prefixes(&"a/".repeat(100)).len(), DEEPEST);
        assert_eq!((prefixes("/root/dot"), parent("/root")), (vec!["/root".into(), "/root/dot".into()], None));
        for path in ["/root//dot", &"b/".repeat(40), "a)/b(c/d", "//", "x(/y/z"] {
            let prefixes = prefixes(path);
            for pair in prefixes.windows(2) {
                assert_eq!(parent(&pair[1]), Some(pair[0].as_str()), "{path}");
            }
            assert_eq!(prefixes.first().and_then(|first| parent(first)), None, "{path}");
        }
    }
}
