//! The reference of metrics, from the table in `src/metrics.rs`.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, bail};
use syn::{
    Expr, Ident, Item, ItemStruct, LitStr, Token, Type,
    parse::{Parse, ParseStream},
};

use super::{
    markdown::{Page, code, codes, escape, table},
    source,
};

const SOURCE: &str = "src/metrics.rs";
const LABELS: &str = "src/metrics/labels.rs";

/// The rows of the table.
struct MetricRows(Vec<MetricRow>);

/// A row: `name: Type, "help", BUCKETS;`.
struct MetricRow {
    name: Ident,
    metric: Type,
    help: LitStr,
}

impl Parse for MetricRows {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut rows = Vec::new();
        while !input.is_empty() {
            let name = input.parse()?;
            input.parse::<Token![:]>()?;
            let metric = input.parse()?;
            input.parse::<Token![,]>()?;
            let help = input.parse()?;
            if input.parse::<Option<Token![,]>>()?.is_some() {
                input.parse::<Expr>()?;
            }
            input.parse::<Token![;]>()?;
            rows.push(MetricRow { name, metric, help });
        }
        Ok(Self(rows))
    }
}

/// Returns the reference of all metrics.
pub(crate) fn reference(root: &Path) -> Result<String> {
    let file = source::read(root, SOURCE)?;
    let is_table =
        |item: &&Item| matches!(item, Item::Macro(item) if item.ident.is_none() && item.mac.path.is_ident("metrics"));
    let Some(Item::Macro(item)) = file.items.iter().find(is_table) else { bail!("{SOURCE} has no table of metrics") };
    let MetricRows(rows) = item.mac.parse_body().with_context(|| format!("parsing the metrics in {SOURCE}"))?;
    let labels = source::read(root, LABELS)?;
    let structs: BTreeMap<String, &ItemStruct> = labels
        .items
        .iter()
        .filter_map(|item| if let Item::Struct(item) = item { Some((item.ident.to_string(), item)) } else { None })
        .collect();
    let mut page = Page::new("Metrics");
    page.add(
        "`/metrics` at the address of `--listen` serves these metrics in the OpenMetrics format. Durations are in seconds, \
         and times in seconds since 1970.",
    );
    let mut cells = vec![["`kaudit_build_info`", "info", "`version`", "Build information"].map(str::to_owned)];
    for MetricRow { name, metric, help } in &rows {
        let (kind, labels) = kind_and_labels(metric, &structs)?;
        let suffix = match kind {
            "counter" => "_total",
            "histogram" => "_seconds",
            _ => "",
        };
        let labels = codes(labels.iter().map(String::as_str));
        cells.push([code(&format!("kaudit_{name}{suffix}")), kind.to_owned(), labels, escape(&help.value())]);
    }
    page.add(&table(["metric", "type", "labels", "meaning"], cells));
    Ok(page.finish())
}

/// Returns the type of a metric, and its labels: the fields of the first parameter of its type.
fn kind_and_labels(metric: &Type, structs: &BTreeMap<String, &ItemStruct>) -> Result<(&'static str, Vec<String>)> {
    let name = source::type_name(metric).unwrap_or_default();
    let labels = || {
        let name = source::parameters(metric).first().and_then(|labels| source::type_name(labels));
        let fields = name.and_then(|name| structs.get(&name)).into_iter().flat_map(|labels| &labels.fields);
        fields.map(source::field_name).collect::<Vec<_>>()
    };
    Ok(match &*name {
        "Gauge" => ("gauge", Vec::new()),
        "Counter" => ("counter", Vec::new()),
        "Histogram" => ("histogram", Vec::new()),
        "SeriesTable" => ("gauge", labels()),
        "Family" => {
            let of = source::parameters(metric).get(1).copied().context("a family has labels and a type")?;
            (kind_and_labels(of, structs)?.0, labels())
        }
        other => bail!("unknown type of metric: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_an_idle_process_is_listed_with_its_type() {
        let reference = reference(crate::root()).unwrap();
        let encoded = kaudit::metrics::Metrics::default().encode();
        let types: Vec<&str> = encoded.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert!(types.len() > 15, "{encoded}");
        for line in types {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let row = format!("| `{name}{suffix}` | {kind} |");
            assert!(reference.contains(&row), "{row} is not in\n{reference}");
        }
    }
}
