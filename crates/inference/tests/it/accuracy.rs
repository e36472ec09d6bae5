//! The demo models solve exactly as many built-in problems as with transformers in float32.

use std::ops::ControlFlow;

use ergometer_inference::{Demo, Finish, Model, Sampling};

/// A line of the dataset.
#[derive(serde::Deserialize)]
pub(crate) struct Problem {
    pub(crate) problem: String,
    pub(crate) answer: String,
}

pub(crate) fn problems() -> Vec<Problem> {
    let lines = include_str!("../../../../assets/datasets/builtin.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a problem")).collect()
}

/// The greedy answer.
pub(crate) fn answer(model: &Model, problem: &str) -> String {
    let prompt = model.encode(None, problem).expect("a prompt");
    let mut text = String::new();
    let generation = model.generate(&prompt, &Sampling::default(), &mut |piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    });
    assert_ne!(generation.expect("an answer").finish, Finish::Cancelled);
    text
}

fn solved(demo: Demo) -> usize {
    let model = Model::demo(demo).expect("the demo loads");
    let problems = problems();
    assert_eq!(problems.len(), 600);
    problems.iter().filter(|problem| answer(&model, &problem.problem) == problem.answer).count()
}

#[test]
fn tiny_solves_478_of_600() {
    assert_eq!(solved(Demo::Tiny), 478);
}

#[test]
fn small_solves_548_of_600() {
    assert_eq!(solved(Demo::Small), 548);
}
