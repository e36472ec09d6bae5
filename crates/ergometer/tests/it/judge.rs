//! Answers judged by a model after the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ergometer::close::ClosedRun;
use ergometer::journal::SessionEvents;
use ergometer::run::{FinishedRun, PreparedRun, RunError, Target};
use ergometer_clients::FailureKind;
use ergometer_datasets::grade::Grader;
use ergometer_datasets::{Dataset, DatasetError, Query};
use ergometer_diagnostics::{CommandLine, Diagnostic};
use ergometer_runs::Closing;
use ergometer_runs::config::{JudgeSpec, RunConfig};
use ergometer_runs::summary::JudgeSummary;
use tokio::sync::watch;

use crate::client::{Call, Scripted, Step, answer};
use crate::dataset::Questions;
use crate::rig::{NoObserver, Rig, closed, config, has_warning};
use crate::sensors::{blind, whole};
use crate::table::Table;

const RIGHT: &str = "Both say so.\nverdict: correct";
const WRONG: &str = "They differ.\nverdict: wrong";

fn judged() -> RunConfig {
    let judge =
        JudgeSpec { base_url: String::from("http://judge"), model: String::from("org/judge"), ..JudgeSpec::default() };
    RunConfig { judge: Some(judge), ..config() }
}

fn judge(script: impl Fn(u64) -> &'static str + Send + Sync + 'static) -> Scripted {
    Scripted::new(move |index| vec![Step::Say(script(index))])
}

fn answering() -> Scripted {
    Scripted::new(|_| answer("10", 1))
}

async fn run_with(rig: &Rig, size: u64, client: Scripted, judge: Scripted) -> Result<FinishedRun, RunError> {
    let (_sender, stop) = watch::channel(false);
    let prepared = PreparedRun::with(judged(), Box::new(Questions::new(size)), Box::new(client), blind()).await?;
    let prepared = prepared.judged_by(Box::new(judge)).await?;
    prepared.run(Target::New(rig.folder()), stop, Arc::new(NoObserver)).await
}

async fn resume_with(rig: &Rig, size: u64, client: Scripted, judge: Scripted) -> Result<FinishedRun, RunError> {
    let (_sender, stop) = watch::channel(false);
    let folder = rig.folder();
    let prepared = PreparedRun::resume_with(&folder, Box::new(Questions::new(size)), Box::new(client), blind()).await?;
    let prepared = prepared.judged_by(Box::new(judge)).await?;
    prepared.run(Target::Resume(folder), stop, Arc::new(NoObserver)).await
}

fn counts(run: &ClosedRun) -> (u64, u64, u64) {
    let JudgeSummary { model, judged, without_verdict, unjudged } = run.summary.judge.clone().unwrap();
    assert_eq!(model, "org/judge");
    (judged, without_verdict, unjudged)
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn answers_are_judged_after_the_measurement() {
    let rig = Rig::new();
    let events = rig.journal().events_path(0);
    let judge = judge(move |index| {
        assert!(SessionEvents::read(&events).unwrap().closed.is_some(), "the session has ended");
        if index == 1 { WRONG } else { RIGHT }
    });
    let client = Scripted::new(|index| match index {
        3 => vec![Step::Fail(FailureKind::Rejected, "no")],
        _ => answer("10", 1),
    });
    let (calls, judge_calls) = (client.calls(), judge.calls());
    let run = closed(run_with(&rig, 5, client, judge).await);
    assert_eq!(sorted(judge_calls.sent()), [0, 1, 2, 4], "failed requests are not judged");
    assert_eq!((&judge_calls.all()[..2], judge_calls.closings()), (&[Call::Health, Call::Prepare][..], 1));
    assert_eq!(calls.closings(), 1);
    let accuracy = run.summary.accuracy.as_ref().unwrap();
    assert_eq!((accuracy.grader.as_str(), accuracy.correct, accuracy.graded), ("judge:org/judge", 3, 5));
    assert_eq!(counts(&run), (4, 0, 0));
    let table = Table::read(&rig.folder());
    let correct = table.booleans("model_metrics/*/lm_correctness");
    assert_eq!(correct, [true, false, true, false, true].map(Some), "a failed request is a wrong answer");
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(table.texts("ergometer/grade/grader"), vec![some("judge:org/judge"); 5]);
    assert_eq!(table.texts("ergometer/grade/reply")[..2], [some(RIGHT), some(WRONG)]);
    assert_eq!(table.texts("ergometer/grade/extracted")[1..4], [some("wrong"), some("correct"), None]);
    let stored = rig.journal().manifest().unwrap();
    assert_eq!(
        (stored.grader.to_string().as_str(), stored.config.judge.unwrap().model.as_str()),
        ("judge:org/judge", "org/judge")
    );
}

#[tokio::test]
async fn a_reply_without_a_verdict_is_kept_and_not_judged_again() {
    let rig = Rig::new();
    let judge_of = || judge(|index| if index == 1 { "Hard to say." } else { RIGHT });
    let run = closed(run_with(&rig, 3, answering(), judge_of()).await);
    assert_eq!(counts(&run), (2, 1, 0));
    assert_eq!(run.summary.accuracy.as_ref().unwrap().graded, 2);
    assert!(has_warning(&run, "judge:org/judge gave no verdict on 1 answer"), "{:?}", run.summary.warnings);
    let table = Table::read(&rig.folder());
    assert_eq!(table.booleans("ergometer/grade/correct"), [Some(true), None, Some(true)]);
    assert_eq!(table.texts("ergometer/grade/reply")[1].as_deref(), Some("Hard to say."));
    let again = judge_of();
    let calls = again.calls();
    let same = closed(resume_with(&rig, 3, answering(), again).await);
    assert_eq!((calls.sent(), calls.closings()), (vec![], 1));
    assert_eq!(same.summary.judge, run.summary.judge);
}

#[tokio::test]
async fn a_failing_judge_is_given_up_and_asked_again_on_resume() {
    let rig = Rig::new();
    let failing = Scripted::new(|index| match index {
        0 => vec![Step::Say(RIGHT)],
        1 => vec![Step::Panic],
        _ => vec![Step::Fail(FailureKind::HttpStatus(401), "no key")],
    });
    let calls = failing.calls();
    let finished = run_with(&rig, 40, answering(), failing).await;
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Finished);
    let run = closed(finished);
    assert!((5..15).contains(&calls.sent().len()) && calls.closings() == 1, "{:?}", calls.sent());
    assert_eq!(counts(&run), (1, 0, 39));
    assert!(has_warning(&run, "39 answers are not judged"), "{:?}", run.summary.warnings);
    let hints: Vec<_> = run.warnings.iter().filter_map(|warning| Some(warning.hint()?.phrase(&CommandLine))).collect();
    assert!(hints.iter().any(|hint| hint.contains("ergo profile --resume") && hint.contains("judge them")));

    let (client, well) = (answering(), judge(|_| WRONG));
    let (calls, judge_calls) = (client.calls(), well.calls());
    let run = closed(resume_with(&rig, 40, client, well).await);
    assert_eq!((calls.sent(), run.summary.sessions), (vec![], 1), "no request and no new session");
    assert_eq!(sorted(judge_calls.sent()), (1..40).collect::<Vec<_>>());
    assert_eq!((counts(&run), run.summary.accuracy.unwrap().correct), ((40, 0, 0), 1), "the first verdict counts");
}

#[tokio::test]
async fn transient_failures_of_the_judge_are_retried() {
    let rig = Rig::new();
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&attempts);
    let failing = Scripted::new(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => vec![Step::Say("half a re"), Step::Fail(FailureKind::Truncated, "gone")],
        _ => vec![Step::Say(RIGHT)],
    });
    let run = closed(run_with(&rig, 1, answering(), failing).await);
    assert_eq!((counts(&run), attempts.load(Ordering::SeqCst)), ((1, 0, 0), 2));
    assert_eq!(Table::read(&rig.folder()).texts("ergometer/grade/reply")[0].as_deref(), Some(RIGHT));
}

#[tokio::test]
async fn an_interrupted_review_is_resumed() {
    let rig = Rig::new();
    let slow = Scripted::new(|index| if index < 3 { vec![Step::Say(RIGHT)] } else { vec![Step::Hang] });
    let (calls, folder) = (slow.calls(), rig.folder());
    let (sender, stop) = watch::channel(false);
    let run = tokio::spawn(async move {
        let client = Box::new(answering());
        let prepared = PreparedRun::with(judged(), Box::new(Questions::new(10)), client, whole()).await?;
        let prepared = prepared.judged_by(Box::new(slow)).await?;
        prepared.run(Target::New(folder), stop, Arc::new(NoObserver)).await
    });
    calls.sent_are(7).await;
    sender.send(true).unwrap();
    let finished = run.await.unwrap();
    assert_eq!(finished.as_ref().unwrap().closing, Closing::Interrupted);
    let run = closed(finished);
    assert_eq!(
        (run.summary.complete, run.summary.closing),
        (true, Some(Closing::Finished)),
        "the measurement is complete"
    );
    assert_eq!((counts(&run), calls.closings()), ((3, 0, 7), 1));

    // After a kill within a line, complete lines are not judged again.
    let path = rig.folder().join("journal/after.jsonl");
    let written = std::fs::read(&path).unwrap();
    std::fs::write(&path, &written[..written.len() - 5]).unwrap();
    let rest = judge(|_| RIGHT);
    let calls = rest.calls();
    let (_sender, stop) = watch::channel(false);
    let client = Box::new(answering());
    let prepared =
        PreparedRun::resume_with(&rig.folder(), Box::new(Questions::new(10)), client, whole()).await.unwrap();
    let prepared = prepared.judged_by(Box::new(rest)).await.unwrap();
    let run = closed(prepared.run(Target::Resume(rig.folder()), stop, Arc::new(NoObserver)).await);
    assert_eq!((counts(&run), calls.sent().len()), ((10, 0, 0), 8));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 10);
}

#[tokio::test]
async fn an_unusable_judge_is_an_error_before_the_first_request() {
    let rig = Rig::new();
    let (client, sick) = (answering(), Scripted { is_healthy: false, ..judge(|_| RIGHT) });
    let (calls, judge_calls) = (client.calls(), sick.calls());
    let error = run_with(&rig, 2, client, sick).await.unwrap_err();
    assert!(error.to_string().contains("the judge cannot be used: the server is down"), "{error}");
    assert_eq!((calls.sent(), calls.closings(), judge_calls.all()), (vec![], 1, vec![Call::Health, Call::Close]));

    let client = answering();
    let calls = client.calls();
    let error = rig.run(judged(), Questions::new(2), client, blind()).await.unwrap_err();
    assert!(error.to_string().contains("but none was passed"), "{error}");
    assert_eq!((calls.sent(), calls.closings()), (vec![], 1));

    let both = RunConfig { grader: Some("exact".parse().unwrap()), ..judged() };
    let error = rig.run(both, Questions::new(2), answering(), blind()).await.unwrap_err();
    assert!(error.to_string().contains("both a grader and a judge"), "{error}");
    assert_eq!(std::fs::read_dir(rig.runs()).unwrap().count(), 0, "no folder is left");
}

/// Questions without reference answers.
struct Open(Questions);

impl Dataset for Open {
    fn id(&self) -> &'static str {
        "open"
    }

    fn name(&self) -> &'static str {
        "open"
    }

    fn size(&self) -> Option<u64> {
        self.0.size
    }

    fn get(&self, index: u64) -> Result<Query, DatasetError> {
        Ok(Query { answer: String::new(), ..self.0.get(index)? })
    }

    fn fingerprint(&self) -> &str {
        self.0.fingerprint()
    }

    fn grader(&self) -> Grader {
        Grader::None
    }
}

#[tokio::test]
async fn a_judge_needs_reference_answers() {
    for size in [Some(3), None] {
        let client = answering();
        let calls = client.calls();
        let open = Box::new(Open(Questions { size, ..Questions::new(3) }));
        let endless = RunConfig { duration_s: Some(1.0), ..judged() };
        let error = PreparedRun::with(endless, open, Box::new(client), blind()).await.err().unwrap();
        assert!(error.to_string().contains("has no reference answers for a judge"), "{error}");
        assert_eq!(calls.all(), [Call::Close]);
    }
}
