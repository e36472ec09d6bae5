//! The interval of a share if nothing shows how requests shared the server: the range of the splits that could be defended.

use crate::Stream;

/// The weight of a request in one way to divide energy.
type Weight<'a> = &'a dyn Fn(&Stream) -> Option<f64>;

/// The range of the net joules of each request over several ways to divide the energy: equally by time, by all tokens, by
/// prompt tokens and by output tokens. `equal` has the equal share of each request that takes part in the division. Without
/// token counts a request may have used none of that energy, or all energy above idle while it was in flight, which `alone`
/// computes.
#[must_use]
pub fn equal_share_range(streams: &[Stream], equal: &[Option<f64>], alone: &dyn Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let energy: f64 = equal.iter().flatten().sum();
    let prompt = |stream: &Stream| stream.prompt_tokens;
    let output = |stream: &Stream| stream.output_tokens;
    let both = |stream: &Stream| stream.prompt_tokens.zip(stream.output_tokens).map(|(one, other)| one + other);
    let splits: [Weight; 3] = [&both, &prompt, &output];
    let divided = || streams.iter().zip(equal).filter(|(_, equal)| equal.is_some()).map(|(stream, _)| stream);
    let totals = splits.map(|weight| divided().map(weight).sum::<Option<f64>>().filter(|&total| total > 0.0));
    let range = |(place, (stream, &equal)): (usize, (&Stream, &Option<f64>))| {
        let Some(equal) = equal else { return (0.0, 0.0) };
        let (mut low, mut high) = (equal, equal);
        for (weight, total) in splits.iter().zip(totals) {
            let (Some(weight), Some(total)) = (weight(stream), total) else {
                return (0.0_f64.min(equal), alone(place).max(equal));
            };
            let share = energy * weight / total;
            (low, high) = (low.min(share), high.max(share));
        }
        (low, high)
    };
    streams.iter().zip(equal).enumerate().map(range).collect()
}

#[cfg(test)]
mod tests {
    use ergometer_units::Timestamp;

    use super::*;

    fn stream(prompt: Option<f64>, output: Option<f64>) -> Stream {
        let at = Timestamp::from_nanos_since_epoch;
        Stream {
            id: None,
            sent: at(0),
            end: at(10),
            prompt_tokens: prompt,
            cached_tokens: 0.0,
            output_tokens: output,
            arrivals: Vec::new(),
        }
    }

    #[test]
    fn the_range_holds_every_split() {
        let streams = [stream(Some(90.0), Some(10.0)), stream(Some(10.0), Some(30.0))];
        let ranges = equal_share_range(&streams, &[Some(50.0), Some(50.0)], &|_| 80.0);
        assert_eq!(ranges, [(25.0, 90.0), (10.0, 75.0)]);
    }

    #[test]
    fn requests_that_are_not_divided_do_not_count() {
        let others = (0..98).map(|_| stream(Some(1000.0), Some(100.0)));
        let streams: Vec<Stream> =
            [stream(Some(90.0), Some(10.0)), stream(Some(10.0), Some(30.0))].into_iter().chain(others).collect();
        let equal: Vec<Option<f64>> = (0..100).map(|place| (place < 2).then_some(50.0)).collect();
        let ranges = equal_share_range(&streams, &equal, &|_| 80.0);
        assert_eq!((ranges[0], ranges[1], ranges[2]), ((25.0, 90.0), (10.0, 75.0), (0.0, 0.0)));
    }

    #[test]
    fn without_token_counts_everything_is_possible() {
        let streams = [stream(None, Some(10.0)), stream(Some(10.0), Some(30.0))];
        let alone = |place| [80.0, 90.0][place];
        assert_eq!(equal_share_range(&streams, &[Some(50.0), Some(50.0)], &alone), [(0.0, 80.0), (0.0, 90.0)]);
    }
}
