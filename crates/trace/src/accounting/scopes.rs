//! Named scopes: the work beneath every prefix of the paths that ops carry, as in `jit(step)/layer_0/dot_general`.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::account::Account;
use super::filter::Filter;
use super::grouping::{Accounts, Grouping, share};
use super::work::{self, Role};
use crate::table::{Line, Plane, Trace};

/// Paths deeper than this are cut: each level is a pass over the events.
const DEEPEST: usize = 32;

/// The work of a plane beneath one named scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    /// Which plane of the trace.
    pub plane: usize,
    /// The path of the scope; `None` for work that says none.
    pub path: Option<String>,
    /// How many scopes it stands in.
    pub depth: usize,
    /// The times of all work in it, also of the scopes in it.
    pub account: Account,
    /// Its self time as a part of all work on the plane.
    pub share: Option<f64>,
}

/// Every named scope, by plane, each followed by those in it, longest first.
#[must_use]
pub fn scopes(trace: &Trace, filter: &Filter) -> Vec<Scope> {
    let taken = filter.kinds(trace);
    let paths: Vec<Vec<String>> =
        trace.kinds().iter().map(|kind| kind.path.map_or_else(Vec::new, |path| prefixes(trace.text(path)))).collect();
    trace
        .planes()
        .par_iter()
        .enumerate()
        .filter(|(_, plane)| filter.takes_plane(trace, plane))
        .flat_map_iter(|(number, plane)| scopes_of(trace, number, plane, &paths, (&taken, filter)))
        .collect()
}

fn scopes_of(
    trace: &Trace,
    number: usize,
    plane: &Plane,
    paths: &[Vec<String>],
    (taken, filter): (&[bool], &Filter),
) -> Vec<Scope> {
    let is_work = work::kinds_of_work(trace, plane);
    let lines: Vec<(usize, &Line)> =
        plane.lines.iter().enumerate().filter(|(_, line)| Role::of(trace, plane, line) == Role::Work).collect();
    let deepest = paths.iter().map(Vec::len).max().unwrap_or(0);
    let mut scopes = Vec::new();
    for depth in 0..deepest.max(1) {
        let mut names: Vec<Option<&str>> = Vec::new();
        let mut places: FxHashMap<Option<&str>, usize> = FxHashMap::default();
        let groups: Vec<Option<usize>> = paths
            .iter()
            .map(|prefixes| {
                let name = prefixes.get(depth).map(String::as_str);
                // Work without a path is one row, on the first level.
                (name.is_some() || (depth == 0 && prefixes.is_empty())).then(|| {
                    *places.entry(name).or_insert_with(|| {
                        names.push(name);
                        names.len() - 1
                    })
                })
            })
            .collect();
        let grouping = Grouping {
            lines: lines.clone(),
            count: names.len(),
            is_work: &is_work,
            group: |_, line: &Line, event: usize| {
                let kind = line.kind[event].index();
                let is_taken = taken[kind] && line.duration_ps[event] >= filter.min_duration.get();
                if is_taken { groups[kind] } else { None }
            },
        };
        let Accounts { accounts, all_self } = grouping.accounts();
        scopes.extend(accounts.into_iter().map(|(group, account)| Scope {
            plane: number,
            path: names[group].map(str::to_owned),
            depth,
            share: share(account.self_time, all_self),
            account,
        }));
    }
    in_order(scopes)
}

/// Each scope before those in it, longest first among its neighbours.
fn in_order(mut scopes: Vec<Scope>) -> Vec<Scope> {
    scopes.sort_by(|left, right| {
        let longest = right.account.self_time.cmp(&left.account.self_time);
        left.depth.cmp(&right.depth).then(longest).then_with(|| left.path.cmp(&right.path))
    });
    let mut children: FxHashMap<Option<String>, Vec<Scope>> = FxHashMap::default();
    let mut roots = Vec::new();
    for scope in scopes {
        match scope.path.as_deref().and_then(|path| parent(path)) {
            Some(parent) => children.entry(Some(parent.to_owned())).or_default().push(scope),
            None => roots.push(scope),
        }
    }
    let mut ordered = Vec::new();
    let mut waiting: Vec<Scope> = roots.into_iter().rev().collect();
    while let Some(scope) = waiting.pop() {
        if scope.path.is_some() {
            waiting.extend(children.remove(&scope.path).unwrap_or_default().into_iter().rev());
        }
        ordered.push(scope);
    }
    ordered
}

fn parent(path: &str) -> Option<&str> {
    separators(path).last().map(|at| &path[..at])
}

/// `a/b/c` gives `a`, `a/b` and `a/b/c`.
fn prefixes(path: &str) -> Vec<String> {
    let path = path.trim_end_matches([':', '/']);
    if path.is_empty() {
        return Vec::new();
    }
    let ends = separators(path).take(DEEPEST - 1).chain([path.len()]);
    ends.filter(|&end| end > 0).map(|end| path[..end].to_owned()).collect()
}

/// The places of slashes that stand in no parentheses.
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
    }
}
