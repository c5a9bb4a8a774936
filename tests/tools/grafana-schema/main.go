// Command grafana-schema checks a dashboard with the types that Grafana publishes for its dashboards.
//
// It reads the dashboard as JSON from standard input. A field that Grafana does not have, a missing required field, a value of
// another type, and a panel or query that these types do not know are errors: it prints one per line, with the path of the
// field, and exits with code 1.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/text"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	log.SetFlags(0)
	runtime := cog.NewRuntime()
	// All panels of the library would take most of a minute to compile.
	for _, panel := range []variants.PanelcfgConfig{bargauge.VariantConfig(), stat.VariantConfig(), table.VariantConfig(),
		text.VariantConfig(), timeseries.VariantConfig()} {
		runtime.RegisterPanelcfgVariant(panel)
	}
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())

	raw, err := io.ReadAll(os.Stdin)
	check(err)
	var strict, read dashboard.Dashboard
	check(strict.UnmarshalJSONStrict(raw))
	// Strict reading reports errors but leaves out parts of the value.
	check(json.Unmarshal(raw, &read))
	check(read.Validate())
	var document struct{ Panels []panelDocument }
	check(json.Unmarshal(raw, &document))
	for index, panel := range read.Panels {
		path := fmt.Sprintf("panels[%d]", index)
		if panel.RowPanel == nil {
			checkPanel(path, panel.Panel, document.Panels[index])
			continue
		}
		for inner := range panel.RowPanel.Panels {
			checkPanel(fmt.Sprintf("%s.panels[%d]", path, inner), &panel.RowPanel.Panels[inner], document.Panels[index].Panels[inner])
		}
	}
}

// panelDocument has the parts of a panel that the library does not always read strictly.
type panelDocument struct {
	Targets     []struct{ Datasource struct{ Type string } }
	FieldConfig json.RawMessage
	Panels      []panelDocument
}

// checkPanel reports what strict reading of the whole dashboard accepts: panels and queries of unknown types, whose fields are
// not checked, and unknown fields of fieldConfig.
func checkPanel(path string, panel *dashboard.Panel, document panelDocument) {
	if _, known := cog.ConfigForPanelcfgVariant(panel.Type); !known {
		log.Fatalf("%s.type: there is no type %q in main.go; register it if Grafana has it", path, panel.Type)
	}
	for index, target := range document.Targets {
		if target.Datasource.Type != "prometheus" {
			log.Fatalf(`%s.targets[%d].datasource.type: "prometheus" is required, so that the query is checked`, path, index)
		}
	}
	if document.FieldConfig != nil {
		var config dashboard.FieldConfigSource
		if err := config.UnmarshalJSONStrict(document.FieldConfig); err != nil {
			check(cog.MakeBuildErrors(path+".fieldConfig", err))
		}
	}
}

func check(err error) {
	// The library returns an empty list for no errors.
	if errors, isList := err.(cog.BuildErrors); isList && len(errors) == 0 {
		return
	}
	if err != nil {
		log.Fatal(err)
	}
}
