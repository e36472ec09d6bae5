//! Property test: the SVG of any chart is well formed, small and without NaN.

use std::path::Path;

use ergometer_charts::{Axis, Chart, Hue, Mark, Panel, Points, Scale, Side, Spans, Stroke, Theme, svg};
use proptest::prelude::*;
use resvg::usvg::{Options, Tree};

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -1e3..1e3f64,
        2 => any::<f64>(),
        1 => prop::sample::select(vec![
            0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 1e308, 5e-324, 1e-300, f64::MIN,
        ]),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        prop::collection::vec(number(), 0..8),
        number().prop_map(|value| vec![value; 5]),
        prop::collection::vec(0.0..3.0f64, 0..8),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-h ]{0,12}",
        Just("</text><script>alert(\"1\")</script>&amp;\u{0}\u{b}\u{ffff}\u{202e}]]>".to_owned()),
        Just("long ".repeat(300)),
    ]
}

fn hue() -> impl Strategy<Value = Hue> {
    prop_oneof![any::<u8>().prop_map(Hue::Series), Just(Hue::Muted), Just(Hue::Bad), Just(Hue::Good)]
}

fn points() -> impl Strategy<Value = Points> {
    (text(), hue(), numbers(), numbers(), numbers(), numbers(), prop::collection::vec(text(), 0..6)).prop_map(
        |(label, hue, x, y, low, high, names)| Points { label, hue, x, y, low, high, names, requests: vec![1] },
    )
}

fn spans() -> impl Strategy<Value = Spans> {
    let lanes = prop_oneof![prop::collection::vec(0..9u32, 0..8), prop::collection::vec(any::<u32>(), 0..8)];
    (text(), hue(), numbers(), numbers(), numbers(), lanes).prop_map(|(label, hue, start, turn, end, lane)| Spans {
        label,
        hue,
        start,
        turn,
        end,
        lane,
        ..Spans::default()
    })
}

fn mark() -> impl Strategy<Value = Mark> {
    let stroke = prop::sample::select(vec![Stroke::Solid, Stroke::Dashed, Stroke::Dotted]);
    let side = prop::sample::select(vec![Side::X, Side::Y]);
    prop_oneof![
        points().prop_map(Mark::Points),
        points().prop_map(Mark::Bars),
        spans().prop_map(Mark::Spans),
        (text(), hue(), stroke, numbers(), numbers()).prop_map(|(label, hue, stroke, x, y)| Mark::Line {
            label,
            hue,
            stroke,
            x,
            y
        }),
        (text(), hue(), numbers(), numbers()).prop_map(|(label, hue, x, y)| Mark::Step { label, hue, x, y }),
        (hue(), numbers(), numbers(), numbers()).prop_map(|(hue, x, low, high)| Mark::Band { hue, x, low, high }),
        (side, number(), text(), hue()).prop_map(|(side, at, label, hue)| Mark::Rule { side, at, label, hue }),
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop_oneof![
        any::<bool>().prop_map(|from_zero| Scale::Linear { from_zero }),
        Just(Scale::Log),
        Just(Scale::Plain),
        prop::collection::vec(text(), 0..20).prop_map(|names| Scale::Names { names }),
    ];
    let unit = prop::sample::select(vec!["", "s", "J/query", "B", "%", "<&"]);
    (text(), unit, scale, prop::option::of((number(), number()))).prop_map(|(label, unit, scale, domain)| Axis {
        label,
        unit: unit.into(),
        scale,
        domain,
    })
}

fn chart() -> impl Strategy<Value = Chart> {
    let panel =
        (axis(), prop::collection::vec(mark(), 0..5), number()).prop_map(|(y, marks, share)| Panel { y, marks, share });
    let panels = prop::collection::vec(panel, 0..4);
    let notes = prop::collection::vec(text(), 0..12);
    (text(), text(), text(), notes, axis(), panels).prop_map(|(id, title, subtitle, notes, x, panels)| Chart {
        id,
        title,
        subtitle,
        notes,
        x,
        panels,
    })
}

/// Options with the font of the layout, so that the bounding box includes text.
fn options() -> Options<'static> {
    let mut options = Options { font_family: "Inter".into(), ..Options::default() };
    for file in ["Inter-Regular.otf", "Inter-SemiBold.otf"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/fonts").join(file);
        options.fontdb_mut().load_font_file(path).unwrap();
    }
    options
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_chart_is_well_formed(chart in chart()) {
        let options = options();
        for theme in [Theme::Light, Theme::Dark] {
            let svg = svg(&chart, theme);
            let tree = match Tree::from_str(&svg, &options) {
                Ok(tree) => tree,
                Err(error) => return Err(TestCaseError::fail(format!("{error}\n{svg}"))),
            };
            let (drawn, size) = (tree.root().abs_stroke_bounding_box(), tree.size());
            prop_assert!(drawn.left() >= 0.0 && drawn.right() <= size.width(), "{drawn:?}");
            prop_assert!(drawn.top() >= 0.0 && drawn.bottom() <= size.height(), "{drawn:?}");
            prop_assert!(!svg.contains("NaN"));
            prop_assert!(!svg.contains("=\"inf"));
            prop_assert!(!svg.contains("<script"));
            prop_assert!(svg.len() < 500_000, "{}", svg.len());
        }
    }
}
