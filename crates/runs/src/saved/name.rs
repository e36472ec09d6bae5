//! Short names for several runs, without the parts they have in common.

use super::Run;

/// A label for each run, as short as possible while different: the folders `profile_H200_tiny_builtin` and
/// `profile_H200_small_builtin` get `tiny` and `small`. The label of a single run is its model.
#[must_use]
pub fn labels(runs: &[Run]) -> Vec<String> {
    let names: Vec<String> = runs.iter().map(Run::name).collect();
    if let [run] = runs {
        let model = &run.summary.model;
        return vec![if model.is_empty() { names[0].clone() } else { model.clone() }];
    }
    shortened(&names)
}

fn shortened(names: &[String]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = names.iter().map(|name| name.split('_').collect()).collect();
    let shortest = parts.iter().map(Vec::len).min().unwrap_or(0);
    let is_shared =
        |at: &dyn Fn(&[&str]) -> usize| parts.windows(2).all(|pair| pair[0][at(&pair[0])] == pair[1][at(&pair[1])]);
    let first = (0..shortest).take_while(|&place| is_shared(&|_| place)).count();
    let last = (1..=shortest - first).take_while(|&place| is_shared(&|parts| parts.len() - place)).count();
    let cut: Vec<String> = parts.iter().map(|parts| parts[first..parts.len() - last].join("_")).collect();
    let mut labels: Vec<String> = Vec::new();
    for (label, name) in cut.into_iter().zip(names) {
        // A name whose parts are all common is kept whole, and equal names are numbered.
        let label = if label.is_empty() { name.clone() } else { label };
        let same = labels.iter().filter(|other| **other == label || other.starts_with(&format!("{label} ("))).count();
        labels.push(if same == 0 { label } else { format!("{label} ({})", same + 1) });
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_of(names: &[&str]) -> Vec<String> {
        shortened(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn common_parts_are_left_out() {
        assert_eq!(labels_of(&["profile_H200_tiny_builtin", "profile_H200_small_builtin"]), ["tiny", "small"]);
        assert_eq!(labels_of(&["profile_H200_m_b", "profile_H200_m_b_two"]), ["profile_H200_m_b", "two"]);
        assert_eq!(labels_of(&["a", "a", "a"]), ["a", "a (2)", "a (3)"]);
        assert_eq!(labels_of(&["one", "two"]), ["one", "two"]);
        assert!(labels_of(&[]).is_empty());
    }
}
