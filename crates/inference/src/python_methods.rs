//! Methods of Python's strings and dictionaries that chat templates call and minijinja does not provide.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Calls a method that minijinja does not know. It has the signature of minijinja's callback for unknown methods.
pub(crate) fn call_method(_: &mut State, value: &Value, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    let result = match value.kind() {
        ValueKind::String => value.as_str().and_then(|text| call_on_text(text, method, arguments)),
        ValueKind::Map => call_on_map(value, method, arguments),
        _ => None,
    };
    let unknown = || format!("{} has no method {method} with these arguments", value.kind());
    result.ok_or_else(|| Error::new(ErrorKind::UnknownMethod, unknown()))
}

fn call_on_text(text: &str, method: &str, arguments: &[Value]) -> Option<Value> {
    let texts = arguments.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
    let is_stripped = |letter: char| texts.first().map_or(letter.is_whitespace(), |set| set.contains(letter));
    Some(match (method, texts.as_slice()) {
        ("strip", [] | [_]) => text.trim_matches(is_stripped).into(),
        ("lstrip", [] | [_]) => text.trim_start_matches(is_stripped).into(),
        ("rstrip", [] | [_]) => text.trim_end_matches(is_stripped).into(),
        ("startswith", [start]) => text.starts_with(start).into(),
        ("endswith", [end]) => text.ends_with(end).into(),
        ("upper", []) => text.to_uppercase().into(),
        ("lower", []) => text.to_lowercase().into(),
        ("replace", [from, to]) => text.replace(from, to).into(),
        ("split", []) => text.split_whitespace().map(Value::from).collect(),
        ("split", [separator]) if !separator.is_empty() => text.split(separator).map(Value::from).collect(),
        _ => return None,
    })
}

fn call_on_map(map: &Value, method: &str, arguments: &[Value]) -> Option<Value> {
    let keys = || map.try_iter().ok();
    let entry = |key: &Value| map.get_item(key).ok();
    Some(match (method, arguments) {
        ("keys", []) => keys()?.collect(),
        ("values", []) => keys()?.map(|key| entry(&key)).collect::<Option<Vec<Value>>>()?.into(),
        ("items", []) => {
            keys()?.map(|key| Some(Value::from(vec![key.clone(), entry(&key)?]))).collect::<Option<_>>()?
        }
        ("get", [key]) => entry(key).filter(|value| !value.is_undefined()).unwrap_or(Value::from(())),
        ("get", [key, default]) => entry(key).filter(|value| !value.is_undefined()).unwrap_or(default.clone()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::{Environment, context};

    fn evaluate(expression: &str) -> Result<String, Error> {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(call_method);
        environment.render_str(&format!("{{{{ {expression} }}}}"), context!(map => context!(role => "user")))
    }

    #[test]
    fn methods_behave_as_in_python() {
        for (expression, expected) in [
            ("'  a b '.strip()", "a b"),
            ("'xxaxx'.strip('x')", "a"),
            ("' a '.lstrip() ~ '|'", "a |"),
            ("' a '.rstrip() ~ '|'", " a|"),
            ("'abc'.startswith('ab') and 'abc'.endswith('bc')", "True"),
            ("'aXb'.lower() ~ 'aXb'.upper()", "axbAXB"),
            ("'a-b'.replace('-', '+')", "a+b"),
            ("'a</think>b'.split('</think>')[-1]", "b"),
            ("' a  b '.split() | length", "2"),
            ("map.get('role') ~ map.get('name', 'none')", "usernone"),
            ("map.items() | length", "1"),
            ("map.keys() | first ~ map.values() | first", "roleuser"),
        ] {
            assert_eq!(evaluate(expression).unwrap(), expected, "{expression}");
        }
    }

    #[test]
    fn an_unknown_method_is_an_error_that_names_it() {
        assert!(evaluate("'a'.explode()").unwrap_err().to_string().contains("explode"));
        assert!(evaluate("'a'.split('')").is_err());
        assert!(evaluate("(1).strip()").is_err());
    }
}
