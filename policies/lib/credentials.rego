# METADATA
# title: Credentials in text
# description: |
#   Recognises passwords, tokens and keys by the name of a setting or by the form of a value. References to a secret, and files
#   that hold one, are no credentials.
package lib.credentials

# METADATA
# description: Whether a setting with this name is a secret, such as DB_PASSWORD or `github.token`.
is_secret_name(name) if {
	regex.match(`(password|passwd|passphrase|secret|token|credentials?|(api|access|private|secret|signing|encryption)[_.-]?key|secret_key_base|(^|[_.-])(pass|pwd))([_.-]value)?$`, lower(name))

	# Keys that browsers receive, and the name of an etcd cluster.
	not regex.match(`public|publishable|initial[_.-]cluster[_.-]token$`, lower(name))
}

# METADATA
# description: |
#   Whether the value of a setting that is named like a secret may be the secret itself: neither a switch, a number, a path,
#   a reference nor a placeholder.
is_literal(name, value) if {
	# A switch, as in ALLOW_EMPTY_PASSWORD=yes.
	not lower(value) in {"", "disabled", "enabled", "false", "nil", "no", "none", "null", "off", "on", "optional", "required", "true", "yes"}

	# References to variables, and placeholders of templates.
	not regex.match(`\$[({]|\{\{|^\$\w+$|^[$%@]?[<{\[].*[>}\]]$|^%[^%]+%$|^@[^@]+@$|^__\w+__$|^[*.xX-]+$`, value)

	# References that a webhook, a controller or a tool resolves.
	not regex.match(`^(vault:|ref\+|awssm:|>>vault:|arn:|ENC[(\[]|[A-Za-z][A-Za-z0-9+.-]*://)`, value)

	# A file that holds the secret.
	not regex.match(`^(/[A-Za-z0-9_.@-]+)+/?$|^(\.{0,2}/)?([A-Za-z0-9_.@-]+/)*[A-Za-z0-9_.@-]+\.(cert|conf|crt|env|json|key|p12|pem|pfx|txt|ya?ml)$`, value)
	not is_count(name, value)
}

# A limit or a switch, as in MAX_TOKEN=4096. Passwords may consist of digits.
is_count(name, value) if {
	regex.match(`^[0-9]+([.][0-9]+)?$`, value)
	not is_password_name(name)
}

is_password_name(name) if regex.match(`(password|passwd|passphrase|pass|pwd)([_.-]value)?$`, lower(name))

# METADATA
# description: |
#   Whether a text may contain a credential or the name of a secret. Most texts do not, and this search is faster than those that
#   find which.
may_contain(text) if {
	regex.match(`(?i)pass|pwd|secret|token|credential|key|://|gh[oprsu]_|github_pat_|glpat-|xox|_live_|npm_|hvs\.|sg\.|a[ks]ia`, text)
}

# METADATA
# description: The kinds of credentials that a text contains, by their form and not by a name.
forms(text) := {form |
	# mutants: equivalent, because it only saves time.
	may_contain(text)
	some form, pattern in patterns
	regex.match(pattern, text)
}

# Of a token, the prefix and the length have to match.
patterns := {
	"a private key": `-----BEGIN ([A-Z]+ )*PRIVATE KEY-----`,
	"a token": `\b(gh[oprsu]_[A-Za-z0-9]{36}|github_pat_\w{22,}|glpat-[\w-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}|[rs]k_live_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{36}|hvs\.[\w-]{24,}|SG\.[\w-]{22}\.[\w-]{43}|A[KS]IA[A-Z0-9]{16}[^A-Za-z0-9]+[A-Za-z0-9/+]{40})`,
	# A reference such as $(PASSWORD), a placeholder or a mask is no password.
	"a URL with a password": `[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s:"'<>]*:[^/?#@\s$%{<*"'][^/?#@\s"'<>]*@`,
}

# METADATA
# description: |
#   The names of the secrets that a command line sets, such as `password` for `--password=hunter2`, `--password hunter2` and
#   `PASSWORD=hunter2`.
in_command(text) := settings(union({
	found(`(?:^|[\s;&|"'(])-{0,2}([A-Za-z_][\w.-]*)=(?:"([^"]*)"|'([^']*)'|([^\s"';&|()$\x60][^\s"';&|()]*))`, text),
	{setting | some setting in found(`(?:^|\s)--?([A-Za-z][\w.-]*)\s+(?:"([^"]*)"|'([^']*)'|([^\s"';&|()$\x60-][^\s"';&|()]*))`, text); takes_value(setting.name)},
}))

# The next word after a switch such as --no-password is no value of it.
takes_value(flag) if not regex.match(`^(allow|ask|disable|enable|generate|no|prompt|random|require|skip|use|with)[_-]`, lower(flag))

# METADATA
# description: The names of the secrets that a file of settings contains in YAML, JSON, or lines `name=value`.
in_settings(text) := settings({setting |
	some pattern in [
		`(?m)^[ \t]*(?:- +|export +)?["']?([A-Za-z_][\w.-]*)["']?[ \t]*(?::[ \t]|=)[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"'&*!|>#,;(){}\[\]][^\s"',;(){}\[\]]*))[ \t\r]*(?:[,;#].*)?$`,
		`"([A-Za-z_][\w.-]*)"\s*:\s*"([^"\\\n]*)"`,
	]
	some setting in found(pattern, text)

	# A label, as in texts of user interfaces.
	not regex.match(`^[A-Z][a-z]+$`, setting.value)
})

# The first group of a pattern is a name, one of the other three its value.
found(pattern, text) := {{"name": match[1], "value": concat("", array.slice(match, 2, count(match)))} |
	some match in regex.find_all_string_submatch_n(pattern, text, -1)
}

settings(candidates) := {candidate.name | some candidate in candidates; is_certain(candidate.name, candidate.value)}

# METADATA
# description: |
#   Whether a setting is a secret beyond doubt: words, which may be the name of a Secret or of a method, count only as
#   passwords, and text with spaces does not count at all.
is_certain(name, value) if {
	is_secret_name(name)
	is_literal(name, value)
	not regex.match(`\s`, value)
	not is_name(name, value)
}

is_name(name, value) if {
	regex.match(`^[A-Za-z]+([._/-]([A-Za-z]+|v?[0-9]{1,3}))*$`, value)
	not is_password_name(name)
}
