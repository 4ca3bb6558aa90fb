// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads where apt gets its packages from, in both of its formats, and derives from the
//! machine's own mirror where two suites are that it may lack.

use std::path::Path;

/// One entry of apt's sources.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Source {
    /// `deb`, `deb-src`.
    pub types: Vec<String>,
    /// Base addresses.
    pub uris: Vec<String>,
    /// Suites.
    pub suites: Vec<String>,
    /// Components.
    pub components: Vec<String>,
    /// `Signed-By`, as written, continuation lines included.
    pub signed_by: Option<String>,
    /// `Trusted`.
    pub trusted: Option<String>,
}

/// Reads every source below `etc` (apt's folder).
pub fn read_all(etc: &Path) -> Vec<Source> {
    let mut files = vec![etc.join("sources.list")];
    let parts = std::fs::read_dir(etc.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten();
    files.extend(parts.map(|e| e.path()));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        match file.extension().and_then(|e| e.to_str()) {
            Some("sources") => all.extend(deb822(&text)),
            Some("list") => all.extend(text.lines().filter_map(one_line)),
            _ => {}
        }
    }
    all
}

/// `deb [option=value ...] uri suite component...`
pub fn one_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let (kind, mut rest) = line.split_once(char::is_whitespace)?;
    if !["deb", "deb-src"].contains(&kind) {
        return None;
    }
    let mut source = Source {
        types: words(kind),
        ..Source::default()
    };
    rest = rest.trim_start();
    if let Some(bracket) = rest.strip_prefix('[') {
        let (options, after) = bracket.split_once(']')?;
        for option in options.split_whitespace() {
            match option.split_once('=') {
                Some(("signed-by", value)) => source.signed_by = Some(value.into()),
                Some(("trusted", value)) => source.trusted = Some(value.into()),
                _ => {}
            }
        }
        rest = after;
    }
    let mut fields = rest.split_whitespace().map(str::to_string);
    source.uris.push(fields.next()?);
    source.suites.push(fields.next()?);
    source.components = fields.collect();
    Some(source)
}

/// Paragraphs of `Key: value`, with continuation lines.
pub fn deb822(text: &str) -> Vec<Source> {
    let mut all = Vec::new();
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
    for paragraph in lines.split(|l| l.trim().is_empty()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line);
                }
            } else if let Some((key, value)) = line.split_once(':') {
                fields.push((key.trim().to_lowercase(), value.trim().into()));
            }
        }
        let get = |key: &str| {
            fields
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, v)| v.clone())
        };
        let off = get("enabled")
            .is_some_and(|v| ["no", "false", "0"].contains(&v.to_lowercase().as_str()));
        if off || fields.is_empty() {
            continue;
        }
        let list = |key: &str| get(key).map(|v| words(&v)).unwrap_or_default();
        all.push(Source {
            types: list("types"),
            uris: list("uris"),
            suites: list("suites"),
            components: list("components"),
            signed_by: get("signed-by"),
            trusted: get("trusted"),
        });
    }
    all
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

/// A source of binary packages has this suite.
pub fn has_suite(all: &[Source], suite: &str) -> bool {
    all.iter().any(|s| offers(s, suite))
}

fn offers(source: &Source, suite: &str) -> bool {
    source.types.iter().any(|t| t == "deb")
        && source
            .suites
            .iter()
            .any(|s| s.trim_end_matches('/') == suite)
}

/// The entry that the release itself comes from.
pub fn main_source<'a>(all: &'a [Source], release: &str) -> Option<&'a Source> {
    all.iter().find(|s| {
        offers(s, release) && s.components.iter().any(|c| c == "main") && !s.uris.is_empty()
    })
}

/// An entry for `suite` at `uri`, trusted as `like` is.
pub fn entry(like: &Source, uri: &str, suite: &str) -> String {
    let mut text = format!("Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\n");
    for (key, value) in [("Signed-By", &like.signed_by), ("Trusted", &like.trusted)] {
        if let Some(value) = value {
            text += &format!("{key}: {value}\n");
        }
    }
    text
}

/// Where the security suite is, if it stands beside the release: the path's component `debian`
/// is `debian-security` there.
pub fn security_uri(uri: &str) -> Option<String> {
    let at = uri
        .rmatch_indices("/debian")
        .map(|(i, _)| i + 1)
        .find(|&i| {
            let after = &uri[i + "debian".len()..];
            after.is_empty() || after.starts_with('/')
        })?;
    let host_ends = uri.find("://").map_or(0, |i| i + 3);
    (at > host_ends).then(|| {
        format!(
            "{}debian-security{}",
            &uri[..at],
            &uri[at + "debian".len()..]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_line_format_is_read_with_options() {
        let s = one_line("deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://m.example/debian bookworm main contrib # x").unwrap();
        assert_eq!(s.uris, ["http://m.example/debian"]);
        assert_eq!(s.suites, ["bookworm"]);
        assert_eq!(s.components, ["main", "contrib"]);
        assert_eq!(
            (s.signed_by.as_deref(), s.trusted.as_deref()),
            (Some("/k.gpg"), Some("yes"))
        );
        assert!(
            one_line("deb http://m.example/debian bookworm main")
                .unwrap()
                .signed_by
                .is_none()
        );
    }

    #[test]
    fn lines_that_are_no_source_are_passed_over() {
        for line in [
            "",
            "# deb http://x y z",
            "deb",
            "deb http://x",
            "deb [broken http://x y",
            "rpm http://x y",
        ] {
            assert_eq!(one_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_paragraph_format_is_read_with_continuations() {
        let text = "# c\nTypes: deb deb-src\nURIs: http://m.example/debian/\nSuites: bookworm\n bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n KEY\n\nTypes: deb\nURIs: http://n.example\nSuites: other\nEnabled: no\n\n\n";
        let all = deb822(text);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(all[0].signed_by.as_deref(), Some("\n -----BEGIN\n .\n KEY"));
        assert!(entry(&all[0], "u", "s").contains("Signed-By: \n -----BEGIN\n .\n KEY\n"));
    }

    #[test]
    fn a_suite_is_found_only_among_binary_sources() {
        let all = [one_line("deb-src http://x/debian bookworm-backports main").unwrap()];
        assert!(!has_suite(&all, "bookworm-backports"));
        let all = [one_line("deb http://x/debian bookworm-backports main").unwrap()];
        assert!(has_suite(&all, "bookworm-backports") && !has_suite(&all, "bookworm"));
    }

    #[test]
    fn files_of_both_formats_are_read_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sources.list.d")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("sources.list", "deb http://x/debian bookworm main\n");
        write(
            "sources.list.d/a.sources",
            "Types: deb\nURIs: http://x/debian\nSuites: b\nComponents: main\n",
        );
        write("sources.list.d/b.list", "deb http://x/debian c main\n");
        write("sources.list.d/c.disabled", "deb http://x/debian d main\n");
        let all = read_all(dir.path());
        let suites: Vec<_> = all.iter().flat_map(|s| s.suites.clone()).collect();
        assert_eq!(suites, ["bookworm", "b", "c"]);
        assert_eq!(main_source(&all, "bookworm").unwrap().suites, ["bookworm"]);
    }

    #[test]
    fn the_security_suite_is_looked_for_beside_the_release() {
        assert_eq!(
            security_uri("http://m.example/debian").unwrap(),
            "http://m.example/debian-security"
        );
        assert_eq!(
            security_uri("http://m.example/a/debian/").unwrap(),
            "http://m.example/a/debian-security/"
        );
        assert_eq!(
            security_uri("http://s.example/archive/debian/20250520T000000Z").unwrap(),
            "http://s.example/archive/debian-security/20250520T000000Z"
        );
        assert_eq!(security_uri("http://debian.example/x"), None);
        assert_eq!(security_uri("http://debian/x"), None);
        assert_eq!(security_uri("http://m.example/debian-archive"), None);
    }
}
