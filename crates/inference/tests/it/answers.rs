//! Generation: pieces, token limits, stop texts, cancellation, seeds and threads.

use std::ops::ControlFlow;
use std::sync::Arc;

use ergometer_inference::{
    Conversation, Demo, EndOfSequence, Exchange, Finish, GenerateError, Generation, Model, Sampling,
};

use crate::accuracy::{answer, problems};

const WORKING: &str = "Add 1538 and 6544, showing the working.";

fn tiny() -> Model {
    Model::demo(Demo::Tiny).expect("the demo loads")
}

/// The pieces and the token counts of an answer.
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
fn an_answer_continues_after_an_ignored_end_of_sequence_token() {
    let model = tiny();
    let sampling = Sampling { max_tokens: Some(12), end_of_sequence: EndOfSequence::Ignore, ..Sampling::default() };
    let (pieces, generation) = generate(&model, "What is 39 + 1?", &sampling);
    assert_eq!((pieces.len(), generation.output_tokens, generation.finish), (12, 12, Finish::Length));
    assert_eq!(pieces[..3].concat(), "40", "the end-of-sequence token has no text");
}

#[test]
fn a_conversation_includes_earlier_turns() {
    let model = tiny();
    let tokens = |before: &[Exchange<'_>]| {
        let conversation = Conversation { system: None, before, user: "c?" };
        model.encode_conversation(&conversation).expect("a prompt").tokens().to_vec()
    };
    let (alone, both) = (tokens(&[]), tokens(&[Exchange { user: "a?", assistant: "b" }]));
    assert_eq!(alone, model.encode(None, "c?").expect("a prompt").tokens());
    assert!(both.len() >= alone.len() + 3, "{both:?}");
    assert!(both.ends_with(&alone[alone.len() - 3..]), "the new user message comes last: {both:?}");
}

#[test]
fn an_answer_ends_at_max_tokens_at_a_stop_text_or_when_cancelled() {
    let model = tiny();
    let limited = Sampling { max_tokens: Some(5), ..Sampling::default() };
    let (whole, _) = generate(&model, WORKING, &Sampling::default());
    let (pieces, generation) = generate(&model, WORKING, &limited);
    assert_eq!((pieces.concat(), generation.finish), (whole[..5].concat(), Finish::Length));
    assert_eq!(generate(&model, WORKING, &Sampling { max_tokens: Some(0), ..limited }).1.output_tokens, 0);

    let stopped = Sampling { stop: vec![String::from("; ")], ..Sampling::default() };
    let (pieces, generation) = generate(&model, WORKING, &stopped);
    assert_eq!((pieces.concat(), generation.finish), (String::from("8+4+0=12"), Finish::Stop));
    assert_eq!(generation.output_tokens, 10, "the tokens of the stop text count");
    // An incomplete stop text: the text held back is handed out at the end.
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
fn a_prompt_that_cannot_fit_is_refused_before_it_is_tokenized() {
    let model = tiny();
    // Its longest token has eight bytes: 256 tokens have at most 2048.
    let error = model.encode(None, &"x".repeat(1 << 20)).unwrap_err();
    assert!(matches!(error, GenerateError::TooManyBytes { most: 2048, context: 256, .. }), "{error}");
    assert!(error.to_string().ends_with("at most 2048 bytes"), "{error}");
    assert!(model.encode(None, &"x".repeat(2000)).is_ok());
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
fn equal_seeds_give_equal_answers_and_different_seeds_do_not() {
    let model = tiny();
    let answers = |seed| {
        let sampling = Sampling { temperature: 1.5, top_p: Some(0.95), top_k: Some(50), seed, ..Sampling::default() };
        problems().iter().take(20).map(|one| generate(&model, &one.problem, &sampling).0.concat()).collect::<Vec<_>>()
    };
    assert_eq!(answers(1), answers(1));
    assert_ne!(answers(1), answers(2));
}

#[test]
fn eight_threads_give_the_same_answers_as_one() {
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
fn the_template_renders_the_prompt() {
    let model = tiny();
    let prompt = model.encode(None, "é").expect("a prompt");
    assert_eq!(prompt.tokens(), [256, 0xC3, 0xA9, 259]);
    let with_system = model.encode(Some("Be brief."), "é").expect("a prompt");
    assert_eq!(with_system, prompt, "the template of the demo models ignores system messages");
    let (_, generation) = generate(&model, "</s><pad> and <answer>", &Sampling::default());
    assert!(generation.output_tokens > 0, "special tokens in a question do no harm");
}
