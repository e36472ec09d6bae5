//! Decides by the name of a parameter whether its value is a secret.
//!
//! A name is split into words (`hf-token`, `HF_TOKEN` and `hfToken` are `hf` and `token`), and the words decide:
//! `monkey` is not `key`, and a token that is counted (`max_tokens`) or looked up (`stop_token_ids`) is not a secret.

/// A name with one of these words is the name of a secret.
const SECRET: &str = "\
    accesskey apikey auth authkey bearer cookie cookies encryptionkey jwt key keys licensekey oauth passphrase \
    privatekey pwd secretkey signingkey sshkey";

/// A word that contains one of these texts is the name of a secret: `mypassword`, `clientsecrets`.
const SECRET_PART: &str = "authorization credential passwd password secret";

/// Words before `token` or `tokens` that make it a secret, even in the plural.
const GRANTING: &str = "access api auth bearer client csrf github hf hub oauth refresh session user";

/// Words next to `token` which show that it is a piece of text: counts, durations, positions.
const TEXTUAL: &str = "\
    begin bias bos budget cls completion count decode end eos first generated ids image input latency length \
    limit logit logprobs mask max maximum min minimum ms new num number output pad per prefill prompt rate \
    reasoning sep special start stop thinking throughput time total type unk usage vocab";

/// Whether a parameter of this name holds a secret.
///
/// ```
/// # use ergometer_clients::redact::is_secret_name;
/// assert!(is_secret_name("api_key") && is_secret_name("accessToken") && is_secret_name("hf-token"));
/// assert!(!is_secret_name("max_tokens") && !is_secret_name("top_k") && !is_secret_name("tokenizer"));
/// ```
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    words.iter().enumerate().any(|(place, word)| match word.as_str() {
        // `pass` alone is a password; `pass_at_k` is a metric.
        "pass" => words.len() == 1,
        // The key of attention, as in `num_key_value_heads`.
        "key" if words.get(place + 1).is_some_and(|next| next == "value") => false,
        "token" => is_granting(&words[..place]) || !is_textual(&words, place),
        "tokens" => is_granting(&words[..place]),
        word if SECRET_PART.split(' ').any(|part| word.contains(part)) => true,
        word => holds(SECRET, word) || is_joined_token(word),
    })
}

fn holds(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

fn is_granting(before: &[String]) -> bool {
    before.last().is_some_and(|word| holds(GRANTING, word))
}

/// Whether the token at this position is a piece of text. `token_id` is the number of a token, but `id_token` is a
/// credential.
fn is_textual(words: &[String], place: usize) -> bool {
    words.iter().any(|word| holds(TEXTUAL, word)) || words[place + 1..].iter().any(|word| word == "id")
}

/// Whether a single word such as `authtoken` or `hftoken` names a secret; `maxtoken` does not.
fn is_joined_token(word: &str) -> bool {
    word.strip_suffix("token").is_some_and(|before| !holds(TEXTUAL, before))
}

/// The words of a name, in lower case, without trailing digits. A name is split at characters that are not
/// alphanumeric, between a lower-case letter and a capital (`apiKey`), and before the last of several capitals
/// (`APIKey`).
fn words(name: &str) -> Vec<String> {
    let characters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (place, &character) in characters.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| characters[before]);
        let after = characters.get(place + 1);
        let starts = character.is_uppercase()
            && before.is_some_and(|before| !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()));
        if starts || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    let trimmed = words.iter().map(|word| word.trim_end_matches(|last: char| last.is_ascii_digit()));
    trimmed.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secret_names_are_recognized() {
        for name in "\
            api_key API_KEY apiKey APIKey apikey x-api-key key Key api_keys aws_access_key_id \
            AWS_SECRET_ACCESS_KEY private_key sshKey apiKey2 token TOKEN accessToken access_tokens hf-token \
            HF_TOKEN hfToken HFToken hftoken authtoken id_token refresh.token api_token_id token2 secret \
            client_secret clientSecret mysecrets password PASSWORD db-password userpassword passwd pwd \
            passphrase pass authorization Authorization proxy-authorization auth oauth2 credential \
            credentials gcpCredentials bearer cookie Set-Cookie jwt"
            .split(' ')
        {
            assert!(is_secret_name(name), "{name}");
        }
        assert!(is_secret_name("GitHub token"));
    }

    #[test]
    fn other_names_are_not_secrets() {
        for name in "\
            max_tokens max_completion_tokens maxTokens min_tokens num_tokens max_new_tokens tokens \
            stop_token_ids eos_token_id eos_token pad_token tokenizer tokenizer_path tokenize token_count \
            prompt_token_count per_token_ms time_to_first_token skip_special_tokens logit_bias token_ids \
            maxtoken top_k topK keyboard monkey turkey keynote hotkeys_on author authority_level \
            num_key_value_heads pass_at_k bypass compass model temperature naïve 温度"
            .split(' ')
        {
            assert!(!is_secret_name(name), "{name}");
        }
        assert!(!is_secret_name("") && !is_secret_name("_"));
    }

    proptest! {
        #[test]
        fn snake_case_camel_case_and_capitals_are_equal(
            before in "[a-z]{1,8}", secret in prop::sample::select(vec!["key", "password", "secret", "credential"]),
            between in "[_. -]{1,2}", capitals: bool)
        {
            let snake = format!("{before}{between}{secret}");
            let snake = if capitals { snake.to_uppercase() } else { snake };
            prop_assert!(is_secret_name(&snake));
            let camel = format!("{before}{}{}", secret[..1].to_uppercase(), &secret[1..]);
            prop_assert!(is_secret_name(&camel));
        }

        #[test]
        fn random_names_never_panic(name in ".*") {
            let _ = is_secret_name(&name);
        }
    }
}
