//! Divides energy among requests by a cost model.

use ergometer_runs::cost_model::{Coefficients, Term, Work, joules};
use ergometer_statistics::percentile;

use crate::RequestWork;

/// The net joules of one request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RequestShare {
    /// Its share. The shares of all requests sum to the energy that was divided.
    pub share: f64,
    /// The lower end of the 95 % interval of the share.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The part of the share for its prompt.
    pub prefill: f64,
    /// What the batch would have saved without the request.
    pub marginal: f64,
    /// What the request would have cost by itself.
    pub alone: f64,
}

/// Divides energy among requests in proportion to their cost in the model.
///
/// The share is the mean over all sets of coefficients that fit, each scaled to the energy that is divided. The interval is
/// the range of these shares, widened by `margin`: the relative error of the energy itself. `others` is work for other
/// clients: its part of the energy is in no share.
/// `None` if the model gives no request any cost.
#[must_use]
pub fn divide(
    energy: f64,
    margin: f64,
    (requests, others): (&[RequestWork], &RequestWork),
    model: &Coefficients,
) -> Option<Vec<RequestShare>> {
    let mut whole = others.work;
    for request in requests {
        whole.iter_mut().zip(request.work).for_each(|(sum, amount)| *sum += amount);
    }
    let scaled = |coefficients: &Work| {
        let cost = joules(&whole, coefficients);
        (cost > 0.0).then(|| coefficients.map(|coefficient| coefficient * energy / cost))
    };
    let draws: Vec<Work> = model.draws.iter().filter_map(scaled).collect();
    if draws.is_empty() {
        return None;
    }
    let mut mean = Work::default();
    for draw in &draws {
        mean.iter_mut().zip(draw).for_each(|(sum, value)| *sum += value / draws.len() as f64);
    }
    let mut values = Vec::with_capacity(draws.len());
    let share = |request: &RequestWork| {
        values.clear();
        values.extend(draws.iter().map(|draw| joules(&request.work, draw)));
        values.sort_by(f64::total_cmp);
        let share = joules(&request.work, &mean);
        let low = percentile(&values, 2.5).unwrap_or(share).min(share);
        let high = percentile(&values, 97.5).unwrap_or(share).max(share);
        let own = |steps: f64| {
            let mut work = request.work;
            work[Term::Step as usize] = steps;
            joules(&work, &mean)
        };
        RequestShare {
            share,
            low: (share - (share - low).hypot(margin * share)).max(0.0_f64.min(share)),
            high: share + (high - share).hypot(margin * share),
            prefill: request.work[Term::PromptToken as usize] * mean[Term::PromptToken as usize]
                + request.work[Term::Prompt as usize] * mean[Term::Prompt as usize],
            marginal: own(request.steps_alone),
            alone: own(request.steps),
        }
    };
    Some(requests.iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;
    use crate::steps::{Step, StepPart, Steps};
    use ergometer_runs::cost_model::TERMS;
    use ergometer_units::Timestamp;

    const NOBODY: RequestWork = RequestWork { work: [0.0; TERMS], steps: 0.0, steps_alone: 0.0 };

    const COSTS: Work = [0.02, 1.0, 1.5, 0.03, 0.000_04, 0.0];

    fn model(spread: f64) -> Coefficients {
        let mut rng = Rng::with_seed(4);
        let draws = (0..100).map(|_| COSTS.map(|cost| cost * (1.0 + spread * (rng.f64() - 0.5)))).collect();
        Coefficients {
            least_squares: COSTS,
            draws,
            likelihoods: Vec::new(),
            r2: None,
            r2_out_of_sample: None,
            observations: 100,
            load_range: 8.0,
        }
    }

    /// Work of requests whose steps are shared at random.
    fn works(seed: u64, count: usize) -> Vec<RequestWork> {
        let mut rng = Rng::with_seed(seed);
        let work = |_| {
            let steps = f64::from(rng.u32(0..200));
            let prompt = f64::from(rng.u32(1..2000));
            RequestWork {
                work: [prompt, 1.0, steps * (0.05 + 0.95 * rng.f64()), steps, steps * (prompt + steps / 2.0), 0.0],
                steps,
                steps_alone: 0.0,
            }
        };
        (0..count).map(work).collect()
    }

    /// The Shapley value by its definition: the mean over all orders of what a request adds to those before it.
    fn shapley(parts: &[(Work, bool)]) -> Vec<f64> {
        let cost = |members: &[usize]| {
            let own: f64 = members.iter().map(|&member| joules(&parts[member].0, &COSTS)).sum();
            let is_step = members.iter().any(|&member| parts[member].1);
            own + if is_step { COSTS[Term::Step as usize] } else { 0.0 }
        };
        let mut orders = vec![Vec::new()];
        for _ in 0..parts.len() {
            orders = orders
                .into_iter()
                .flat_map(|order: Vec<usize>| {
                    (0..parts.len())
                        .filter(|next| !order.contains(next))
                        .map(|next| [&order[..], &[next]].concat())
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        let mut sums = vec![0.0; parts.len()];
        for order in &orders {
            for place in 0..order.len() {
                sums[order[place]] += cost(&order[..=place]) - cost(&order[..place]);
            }
        }
        sums.into_iter().map(|sum| sum / orders.len() as f64).collect()
    }

    proptest! {
        #[test]
        fn shares_sum_to_the_energy_and_lie_in_their_intervals(seed in any::<u64>(), count in 1_usize..60, energy in 0.1_f64..1e6) {
            let works = works(seed, count);
            let shares = divide(energy, 0.01, (&works, &NOBODY), &model(0.5)).unwrap();
            let sum: f64 = shares.iter().map(|share| share.share).sum();
            prop_assert!((sum - energy).abs() < 1e-9 * energy, "{sum} {energy}");
            for share in shares {
                prop_assert!(share.low <= share.share && share.share <= share.high);
                prop_assert!(share.prefill <= share.share + 1e-9 && share.marginal <= share.share + 1e-9);
                prop_assert!(share.alone >= share.share - 1e-9);
            }
        }

        #[test]
        fn exchanging_requests_exchanges_their_shares(seed in any::<u64>(), count in 2_usize..20) {
            let mut works = works(seed, count);
            let before = divide(100.0, 0.01, (&works, &NOBODY), &model(0.5)).unwrap();
            works.swap(0, count - 1);
            let after = divide(100.0, 0.01, (&works, &NOBODY), &model(0.5)).unwrap();
            prop_assert!((before[0].share - after[count - 1].share).abs() < 1e-9);
            prop_assert!((before[count - 1].low - after[0].low).abs() < 1e-9);
        }

        #[test]
        fn a_step_is_divided_by_the_shapley_value(seed in any::<u64>(), count in 1_usize..6) {
            let mut rng = Rng::with_seed(seed);
            let parts: Vec<StepPart> = (0..count)
                .map(|request| {
                    let is_prompt = rng.bool();
                    StepPart {
                        request: Some(request),
                        prompt_tokens: if is_prompt { f64::from(rng.u32(1..500)) } else { 0.0 },
                        prompts: f64::from(u8::from(is_prompt)),
                        tokens: f64::from(u8::from(!is_prompt)),
                        context: if is_prompt { 0.0 } else { f64::from(rng.u32(1..5000)) },
                    }
                })
                .collect();
            let own = parts.iter().map(|part| {
                ([part.prompt_tokens, part.prompts, 0.0, part.tokens, part.context, 0.0], part.tokens > 0.0)
            });
            let expected = shapley(&own.collect::<Vec<_>>());
            let step = Step { start: None, end: Timestamp::from_nanos_since_epoch(0), count: 1.0, parts };
            let energy = joules(&step.work(), &COSTS);
            let works = Steps::for_test(vec![step], count);
            let shares = divide(energy, 0.0, (works.requests(), &NOBODY), &model(0.0)).unwrap();
            for (share, expected) in shares.iter().zip(expected) {
                prop_assert!((share.share - expected).abs() < 1e-9, "{} {expected}", share.share);
            }
        }
    }

    #[test]
    fn a_request_without_work_pays_only_its_part_of_the_steps() {
        let mut works = works(1, 5);
        works[0] = RequestWork { work: [0.0, 0.0, 3.0, 0.0, 0.0, 0.0], steps: 30.0, steps_alone: 0.0 };
        let whole: f64 = works.iter().map(|work| joules(&work.work, &COSTS)).sum();
        let shares = divide(whole, 0.0, (&works, &NOBODY), &model(0.0)).unwrap();
        assert!((shares[0].share - 3.0 * COSTS[2]).abs() < 1e-9);
        assert!((shares[0].alone - 30.0 * COSTS[2]).abs() < 1e-9 && shares[0].marginal.abs() < 1e-9);
    }

    #[test]
    fn energy_for_other_clients_is_in_no_share() {
        let works = works(3, 4);
        let whole: f64 = works.iter().map(|work| joules(&work.work, &COSTS)).sum();
        let others = works[0];
        let energy = whole + joules(&others.work, &COSTS);
        let shares = divide(energy, 0.0, (&works, &others), &model(0.0)).unwrap();
        let sum: f64 = shares.iter().map(|share| share.share).sum();
        assert!((sum - whole).abs() < 1e-9 * whole, "{sum} {whole}");
    }

    #[test]
    fn nothing_can_be_divided_without_work() {
        assert_eq!(divide(10.0, 0.01, (&[RequestWork::default()], &NOBODY), &model(0.1)), None);
    }
}
