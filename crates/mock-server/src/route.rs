//! Finds the endpoint of a method and a path.

use crate::generation_request::Api;

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Generate(Api),
    Models,
    Model(String),
    Health,
    Tokenize,
    Metrics,
    Stats,
    ResetStats,
    Tags,
    Show,
    Version,
    Root,
    /// The path is unknown.
    Unknown,
    /// The path accepts only these other methods.
    NotAllowed(&'static str),
}

impl Route {
    /// The endpoint of this method and path. HEAD is treated as GET.
    pub(crate) fn parse(method: &str, path: &str) -> Self {
        let (allowed, route) = match path {
            "/v1/chat/completions" | "/chat/completions" => ("POST", Self::Generate(Api::OpenAiChat)),
            "/v1/completions" | "/completions" => ("POST", Self::Generate(Api::OpenAiText)),
            "/api/chat" => ("POST", Self::Generate(Api::OllamaChat)),
            "/api/generate" => ("POST", Self::Generate(Api::OllamaText)),
            "/v1/models" | "/models" => ("GET", Self::Models),
            "/health" => ("GET", Self::Health),
            "/tokenize" => ("POST", Self::Tokenize),
            "/metrics" => ("GET", Self::Metrics),
            "/stats" if method == "DELETE" => ("DELETE", Self::ResetStats),
            "/stats" => ("GET", Self::Stats),
            "/stats/reset" => ("POST", Self::ResetStats),
            "/api/tags" => ("GET", Self::Tags),
            "/api/show" => ("POST", Self::Show),
            "/api/version" => ("GET", Self::Version),
            "/" => ("GET", Self::Root),
            _ => match path.strip_prefix("/v1/models/") {
                Some(name) if !name.is_empty() => ("GET", Self::Model(name.to_owned())),
                _ => return Self::Unknown,
            },
        };
        if method == allowed || (method == "HEAD" && allowed == "GET") {
            route
        } else if path == "/stats" {
            Self::NotAllowed("GET, DELETE")
        } else {
            Self::NotAllowed(allowed)
        }
    }

    /// Whether the endpoint needs the API key, if the script has one. Endpoints that only observe the server do not.
    pub(crate) const fn is_guarded(&self) -> bool {
        matches!(self, Self::Generate(_) | Self::Models | Self::Model(_) | Self::Tokenize | Self::Tags | Self::Show)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_paths_are_routed() {
        for (method, path, route) in [
            ("POST", "/v1/chat/completions", Route::Generate(Api::OpenAiChat)),
            ("GET", "/v1/chat/completions", Route::NotAllowed("POST")),
            ("HEAD", "/", Route::Root),
            ("GET", "/v1/models/a/b", Route::Model(String::from("a/b"))),
            ("DELETE", "/stats", Route::ResetStats),
            ("PUT", "/stats", Route::NotAllowed("GET, DELETE")),
            ("POST", "/stats/reset", Route::ResetStats),
            ("GET", "/v2", Route::Unknown),
            ("GET", "/v1/models/", Route::Unknown),
        ] {
            assert_eq!(Route::parse(method, path), route, "{method} {path}");
        }
    }
}
