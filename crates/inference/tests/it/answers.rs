//! How answers come: piece by piece, the same for the same seed, on many threads, up to the end that was asked for.

use std::ops::ControlFlow;
use std::sync::Arc;

use ergometer_inference::{AtEnd, Conversation, Demo, Exchange, Finish, GenerateError, Generation, Model, Sampling};

use crate::accuracy::{answer, problems};

const WORKING: &str = "Add 1538 and 6544, showing the working.";

fn tiny() -> Model {
    Model::demo(Demo::Tiny).expect("the demo loads")
}

/// The pieces of an answer, and its account.
fn generate(model: &Model, problem: &str, sampling: &Sampling) -> (Vec<String>, Generation) {
    let mut pieces = Vec::new();
    let prompt = model.encode(None, problem).expect("a prompt");
    let generation = model.generate(&prompt, sampling, &mut |piece| {
        pieces.push(piece.to_owned());
        ControlFlow::Continue(())
    });
    (pieces, generation.expect("an answer"))
}

#[test]
fn there_is_one_piece_for_every_token() {
    let (pieces, generation) = generate(&tiny(), "What is 39 + 1?", &Sampling::default());
    assert_eq!(pieces, ["4", "0", ""], "the end-of-sequence token is a token and no text");
    // 15 bytes between <s> and <answer>.
    assert_eq!(generation, Generation { input_tokens: 17, output_tokens: 3, finish: Finish::Stop });
}

#[test]
fn an_answer_may_go_on_past_its_end() {
    let model = tiny();
    let sampling = Sampling { max_tokens: Some(12), at_end: AtEnd::GoOn, ..Sampling::default() };
    let (pieces, generation) = generate(&model, "What is 39 + 1?", &sampling);
    assert_eq!((pieces.len(), generation.output_tokens, generation.finish), (12, 12, Finish::Length));
    assert_eq!(pieces[..3].concat(), "40", "the end-of-sequence token has no text");
}

#[test]
fn a_conversation_is_longer_by_what_was_said_before() {
    let model = tiny();
    let tokens = |before: &[Exchange<'_>]| {
        let conversation = Conversation { system: None, before, user: "c?" };
        model.encode_conversation(&conversation).expect("a prompt").tokens().to_vec()
    };
    let (alone, both) = (tokens(&[]), tokens(&[Exchange { user: "a?", assistant: "b" }]));
    assert_eq!(alone, model.encode(None, "c?").expect("a prompt").tokens());
    assert!(both.len() >= alone.len() + 3, "{both:?}");
    assert!(both.ends_with(&alone[alone.len() - 3..]), "what is asked now comes last: {both:?}");
}

#[test]
fn an_answer_ends_at_its_limit_at_a_stop_text_or_by_the_caller() {
    let model = tiny();
    let limited = Sampling { max_tokens: Some(5), ..Sampling::default() };
    let (whole, _) = generate(&model, WORKING, &Sampling::default());
    let (pieces, generation) = generate(&model, WORKING, &limited);
    assert_eq!((pieces.concat(), generation.finish), (whole[..5].concat(), Finish::Length));
    assert_eq!(generate(&model, WORKING, &Sampling { max_tokens: Some(0), ..limited }).1.output_tokens, 0);

    let stopped = Sampling { stop: vec![String::from("; ")], ..Sampling::default() };
    let (pieces, generation) = generate(&model, WORKING, &stopped);
    assert_eq!((pieces.concat(), generation.finish), (String::from("8+4+0=12"), Finish::Stop));
    assert_eq!(generation.output_tokens, 10, "the tokens of the stop text were generated, too");
    // A stop text that only begins: what was held back comes in the end.
    let held = Sampling { stop: vec![whole.concat() + "x"], ..Sampling::default() };
    assert_eq!(generate(&model, WORKING, &held).0.concat(), whole.concat());

    let prompt = model.encode(None, WORKING).expect("a prompt");
    let mut calls = 0;
    let generation = model.generate(&prompt, &Sampling::default(), &mut |_| {
        calls += 1;
        if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let generation = generation.expect("an answer");
    assert_eq!((calls, generation.output_tokens, generation.finish), (3, 3, Finish::Cancelled));
}

#[test]
fn the_context_is_a_limit() {
    let model = tiny();
    let long = "x".repeat(255);
    let prompt = model.encode(None, &long).expect("a prompt");
    let error = model.generate(&prompt, &Sampling::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, GenerateError::TooLong { tokens: 257, context: 256 }), "{error}");
    let (_, generation) = generate(&model, &long[..254], &Sampling::default());
    assert_eq!((generation.output_tokens, generation.finish), (0, Finish::Length), "full, and no room for an answer");
    let hot = Sampling { temperature: 50.0, ..Sampling::default() };
    let lengths = (0..20).map(|seed| generate(&model, &long[..248], &Sampling { seed, ..hot.clone() }).1);
    assert!(lengths.into_iter().any(|one| one.finish == Finish::Length && one.output_tokens == 6));
}

#[test]
fn a_seed_gives_the_same_answer_and_another_seed_another() {
    let model = tiny();
    let answers = |seed| {
        let sampling = Sampling { temperature: 1.5, top_p: Some(0.95), top_k: Some(50), seed, ..Sampling::default() };
        problems().iter().take(20).map(|one| generate(&model, &one.problem, &sampling).0.concat()).collect::<Vec<_>>()
    };
    assert_eq!(answers(1), answers(1));
    assert_ne!(answers(1), answers(2));
}

#[test]
fn eight_threads_give_the_answers_of_one() {
    let (model, problems) = (Arc::new(tiny()), Arc::new(problems()));
    let alone: Vec<String> = problems.iter().take(100).map(|one| answer(&model, &one.problem)).collect();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (model, problems) = (Arc::clone(&model), Arc::clone(&problems));
            std::thread::spawn(move || -> Vec<String> {
                problems.iter().take(100).map(|one| answer(&model, &one.problem)).collect()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic"), alone);
    }
}

#[test]
fn the_prompt_is_made_by_the_template() {
    let model = tiny();
    let prompt = model.encode(None, "é").expect("a prompt");
    assert_eq!(prompt.tokens(), [256, 0xC3, 0xA9, 259]);
    let with_system = model.encode(Some("Be brief."), "é").expect("a prompt");
    assert_eq!(with_system, prompt, "the template of the demos has no place for a system message");
    let (_, generation) = generate(&model, "</s><pad> and <answer>", &Sampling::default());
    assert!(generation.output_tokens > 0, "special tokens in a question are no harm");
}
