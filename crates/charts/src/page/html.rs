//! Writes a page as one HTML file that contains its style sheet, script and data.
//!
//! Text, figures and tables are plain HTML and need no script. The script draws each chart from the JSON beside it. All
//! text passes through [`escape::html`], and headings go from level 1 to 3 without a gap.

use std::fmt::Write;

use super::names::Names;
use super::{Block, Figure, Notice, Page, Section, Tone, assets, data, escape, table};
use crate::{Chart, Mark};

impl Page {
    /// The page as one HTML file that loads nothing from the network.
    ///
    /// ```
    /// # use ergometer_charts::{Block, Page, Section};
    /// let notes = Section { id: "notes".into(), title: "Notes".into(), blocks: vec![Block::Text("a < b".into())] };
    /// let page = Page { title: "A page".into(), sections: vec![notes], ..Page::default() };
    /// assert!(page.html().contains("<p>a &lt; b</p>"));
    /// ```
    #[must_use]
    pub fn html(&self) -> String {
        let mut writer = Writer::new(self);
        writer.page(self);
        writer.out
    }
}

/// A page under construction.
pub(super) struct Writer {
    /// The HTML so far.
    pub(super) out: String,
    /// Whether a chart shows requests, so that request numbers become links.
    pub(super) links_requests: bool,
    names: Names,
}

/// Writes formatted text. Writing to a String never fails.
macro_rules! put {
    ($writer:expr, $($text:tt)*) => {
        let _ = write!($writer.out, $($text)*);
    };
}
pub(super) use put;

impl Writer {
    fn new(page: &Page) -> Self {
        let blocks = page.sections.iter().flat_map(|section| &section.blocks);
        let mut marks = blocks.filter_map(|block| match block {
            Block::Chart(chart) => Some(chart.panels.iter().flat_map(|panel| &panel.marks)),
            _ => None,
        });
        let links_requests =
            marks.any(|mut marks| marks.any(|mark| matches!(mark, Mark::Spans(spans) if !spans.requests.is_empty())));
        Self { out: String::new(), links_requests, names: Names::default() }
    }

    fn page(&mut self, page: &Page) {
        let ids: Vec<String> = page.sections.iter().map(|section| self.names.unique(&section.id)).collect();
        let title = escape::html(&page.title);
        put!(
            self,
            r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<h1>{title}</h1>
"##,
            assets::policy(),
            assets::STYLE
        );
        if !page.subtitle.is_empty() {
            put!(self, "<p class=\"subtitle\">{}</p>\n", escape::html(&page.subtitle));
        }
        self.out.push_str("</header>\n<nav class=\"contents\" aria-label=\"Contents\">\n<ul>\n");
        for (section, id) in page.sections.iter().zip(&ids).filter(|(section, _)| !section.title.is_empty()) {
            put!(self, "<li><a href=\"#{id}\">{}</a></li>\n", escape::html(&section.title));
        }
        self.out.push_str("</ul>\n<button type=\"button\" class=\"theme\" hidden></button>\n</nav>\n");
        self.out.push_str("<main id=\"content\" tabindex=\"-1\">\n");
        for (section, id) in page.sections.iter().zip(&ids) {
            self.section(section, id);
        }
        put!(self, "</main>\n<footer>{}</footer>\n", escape::html(&page.made_by));
        put!(self, "<script type=\"module\">{}</script>\n</body>\n</html>\n", assets::SCRIPT);
    }

    fn section(&mut self, section: &Section, id: &str) {
        if section.title.is_empty() {
            put!(self, "<section id=\"{id}\">\n");
        } else {
            put!(self, "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n");
            put!(self, "<h2 id=\"{id}-title\">{}</h2>\n", escape::html(&section.title));
        }
        for block in &section.blocks {
            self.block(block);
        }
        self.out.push_str("</section>\n");
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Verdict { text, tone } => {
                put!(self, "<p class=\"verdict {}\">{}{}</p>\n", class(*tone), sign(*tone), escape::html(text));
            }
            Block::Figures(figures) => self.figures(figures),
            Block::Notices(notices) => self.notices(notices),
            Block::Text(text) => {
                for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
                    put!(self, "<p>{}</p>\n", escape::html(paragraph));
                }
            }
            Block::Chart(chart) => self.chart(chart),
            Block::Table(table) => {
                let id = self.names.unique(&table.id);
                table::write(self, table, &id);
            }
            Block::Facts(facts) => {
                self.out.push_str("<dl class=\"facts\">\n");
                for (name, value) in facts {
                    put!(self, "<div><dt>{}</dt><dd>{}</dd></div>\n", escape::html(name), escape::html(value));
                }
                self.out.push_str("</dl>\n");
            }
        }
    }

    fn figures(&mut self, figures: &[Figure]) {
        self.out.push_str("<dl class=\"figures\">\n");
        for figure in figures {
            put!(self, "<div><dt>{}</dt>", escape::html(&figure.label));
            // The number is larger than its unit: `1.9` and `ms p50`.
            match figure.value.split_once(' ').filter(|(number, _)| number.contains(|c: char| c.is_ascii_digit())) {
                Some((number, unit)) => {
                    let (number, unit) = (escape::html(number), escape::html(unit));
                    put!(self, "<dd class=\"value\">{number} <span class=\"unit\">{unit}</span></dd>");
                }
                None => {
                    put!(self, "<dd class=\"value\">{}</dd>", escape::html(&figure.value));
                }
            }
            for (class, text) in [("interval", &figure.interval), ("comment", &figure.comment)] {
                if !text.is_empty() {
                    put!(self, "<dd class=\"{class}\">{}</dd>", escape::html(text));
                }
            }
            self.out.push_str("</div>\n");
        }
        self.out.push_str("</dl>\n");
    }

    fn notices(&mut self, notices: &[Notice]) {
        self.out.push_str("<ul class=\"notices\">\n");
        for notice in notices {
            put!(self, "<li><p>{}</p>", escape::html(&notice.text));
            if !notice.remedy.is_empty() {
                put!(self, "<p class=\"remedy\">{}</p>", escape::html(&notice.remedy));
            }
            self.out.push_str("</li>\n");
        }
        self.out.push_str("</ul>\n");
    }

    fn chart(&mut self, chart: &Chart) {
        let id = self.names.unique(&chart.id);
        put!(self, "<figure class=\"chart\" id=\"{id}\">\n<figcaption>");
        put!(self, "<h3>{}</h3>", escape::html(&chart.title));
        if !chart.subtitle.is_empty() {
            put!(self, "<p>{}</p>", escape::html(&chart.subtitle));
        }
        self.out.push_str("</figcaption>\n<div class=\"plot\"></div>\n");
        self.out.push_str("<noscript><p class=\"needs\">This chart needs JavaScript.</p></noscript>\n");
        self.notes(&chart.notes);
        put!(self, "<script type=\"application/json\" id=\"{id}-data\">{}</script>\n</figure>\n", data::json(chart));
    }

    /// Writes the notes below a chart or a table.
    pub(super) fn notes(&mut self, notes: &[String]) {
        for note in notes {
            put!(self, "<p class=\"note\">{}</p>\n", escape::html(note));
        }
    }
}

/// The CSS class of a tone.
pub(super) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

/// The symbol of a tone, for readers who cannot distinguish its colour.
fn sign(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "<span class=\"sign\" aria-hidden=\"true\">✓</span> ",
        Tone::Warning => "<span class=\"sign\" aria-hidden=\"true\">!</span> ",
        Tone::Bad => "<span class=\"sign\" aria-hidden=\"true\">✕</span> ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Cell, Panel, Spans, Table};

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- ]]> \"'&\u{202e}\0";

    /// The body of a page with these blocks, without style sheet and script.
    fn body(blocks: Vec<Block>) -> String {
        let section = Section { id: String::from("first"), title: String::from("First"), blocks };
        let page = Page {
            title: String::from("A page"),
            subtitle: String::from("of something"),
            sections: vec![section],
            made_by: String::from("Ergometer 0"),
        };
        let html = page.html();
        html[html.find("<body>").unwrap()..html.find("<script type=\"module\">").unwrap()].to_owned()
    }

    fn timeline(requests: Vec<u64>) -> Chart {
        let spans = Spans { start: vec![1.0], end: vec![2.0], lane: vec![0], requests, ..Spans::default() };
        Chart {
            id: String::from("power"),
            title: String::from("Power"),
            subtitle: String::from("over time"),
            notes: vec![String::from("a note")],
            x: Axis::linear("time", "s"),
            panels: vec![Panel { y: Axis::linear("", ""), marks: vec![Mark::Spans(spans)], share: 1.0 }],
        }
    }

    #[test]
    fn a_page_reads_in_order() {
        let mut table =
            Table::new("results", "Results", &[("Request", "request"), ("TTFT", "ttft_ms"), ("Said", "said")]);
        table.notes.push(String::from("below the table"));
        table.rows.push(vec![
            Cell::Request { request: 7 },
            Cell::number(Some(4.25), |v| format!("{v} ms")),
            Cell::Absent,
        ]);
        table.rows.push(vec![
            Cell::Request { request: 8 },
            Cell::Estimate { value: 12.0, low: 11.0, high: 13.123_456, shown: String::from("12 ± 1 ms") },
            Cell::Verdict { text: String::from("worse"), tone: Tone::Bad },
        ]);
        insta::assert_snapshot!(body(vec![
            Block::Verdict { text: String::from("All is well."), tone: Tone::Good },
            Block::Figures(vec![
                Figure {
                    label: String::from("TTFT"),
                    value: String::from("1.9 ms p50"),
                    interval: String::from("1.8 to 2.0"),
                    comment: String::from("600 requests"),
                },
                Figure { label: String::from("energy"), value: String::from("not measured"), ..Figure::default() },
            ]),
            Block::Notices(vec![Notice { text: String::from("few samples"), remedy: String::from("run longer") }]),
            Block::Text(String::from("one paragraph\n\nand another")),
            Block::Chart(Box::new(timeline(vec![7]))),
            Block::Table(table),
            Block::Facts(vec![(String::from("model"), String::from("tiny"))]),
        ]));
    }

    #[test]
    fn hostile_text_never_becomes_a_tag() {
        let hostile = || String::from(HOSTILE);
        let mut table = Table::new(HOSTILE, HOSTILE, &[(HOSTILE, HOSTILE)]);
        table.notes.push(hostile());
        table.rows = vec![
            vec![Cell::text(hostile())],
            vec![Cell::Number { value: 1.0, shown: hostile() }],
            vec![Cell::Verdict { text: hostile(), tone: Tone::Bad }],
        ];
        let mut chart = timeline(vec![1]);
        (chart.id, chart.title, chart.subtitle) = (hostile(), hostile(), hostile());
        (chart.notes, chart.x.label, chart.x.unit) = (vec![hostile()], hostile(), hostile());
        let figure =
            Figure { label: hostile(), value: format!("1 {HOSTILE}"), interval: hostile(), comment: hostile() };
        let blocks = vec![
            Block::Verdict { text: hostile(), tone: Tone::Bad },
            Block::Figures(vec![figure]),
            Block::Notices(vec![Notice { text: hostile(), remedy: hostile() }]),
            Block::Text(hostile()),
            Block::Chart(Box::new(chart)),
            Block::Table(table),
            Block::Facts(vec![(hostile(), hostile())]),
        ];
        let section = Section { id: hostile(), title: hostile(), blocks };
        let page = Page { title: hostile(), subtitle: hostile(), sections: vec![section], made_by: hostile() };
        let html = page.html();
        assert!(!html.contains("<script>") && !html.contains("<!-") && !html.contains("]]>"));
        assert!(!html.contains(['\0', '\u{202e}']));
        assert_eq!(html.matches("<script").count(), 2);
        assert_eq!(html.matches("</script>").count(), 2);
    }

    #[test]
    fn there_are_no_inline_styles_or_handlers() {
        let html = body(vec![Block::Chart(Box::new(timeline(vec![1])))]);
        assert!(!html.contains(" style=") && !html.contains(" onclick") && !html.contains("javascript:"));
    }

    #[test]
    fn a_request_is_a_link_only_if_a_chart_shows_it() {
        let mut table = Table::new("t", "t", &[("Request", "request")]);
        table.rows.push(vec![Cell::Request { request: 7 }]);
        let with = |requests| body(vec![Block::Chart(Box::new(timeline(requests))), Block::Table(table.clone())]);
        assert!(with(vec![7]).contains("<a href=#request=7>7</a>"));
        assert!(!with(vec![]).contains("#request="));
    }
}
