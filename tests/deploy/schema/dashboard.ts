// A dashboard as Grafana's schema has it, but for two things that the schema leaves open and Grafana does not: what the options of each
// kind of panel are, which its own types say, and what a query to Prometheus is. Only the kinds that we use are known.
import type * as schema from "@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen";
import type * as bargauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// The schema's enums as they are written in JSON: their values.
type Json<T> = T extends string
  ? `${T}`
  : T extends number
    ? number extends T ? T : `${T}` extends `${infer N extends number}` ? N : never
    : T extends (infer Each)[]
      ? Json<Each>[]
      : T extends object
        ? { [K in keyof T]: Json<T[K]> }
        : T;

type Target = {
  refId: string;
  datasource: { type: "prometheus"; uid: "${datasource}" };
  editorMode: "code";
  expr: string;
  legendFormat: string;
  instant: boolean;
  range: boolean;
  format: "time_series" | "table" | "heatmap";
};

type FieldConfig<Custom> = Omit<schema.FieldConfigSource, "defaults"> & { defaults: Omit<schema.FieldConfig, "custom"> & { custom?: Custom } };

// What every panel of ours must have is required here, and optional in the schema.
type Panel<Kind extends string, Options, Custom> = Json<
  Omit<schema.Panel, "type" | "options" | "fieldConfig" | "targets" | "id" | "gridPos" | "title" | "description" | "datasource"> &
    Required<Pick<schema.Panel, "id" | "gridPos" | "title" | "description" | "datasource">> & {
      type: Kind;
      options: Options;
      fieldConfig: FieldConfig<Custom>;
      targets: Target[];
    }
>;

type AnyPanel =
  | Panel<"timeseries", timeseries.Options, timeseries.FieldConfig>
  | Panel<"stat", stat.Options, never>
  | Panel<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | Panel<"bargauge", bargauge.Options, never>
  // Its frameIndex has a default, which the schema's types do not tell.
  | Panel<"table", Omit<table.Options, "frameIndex">, table.FieldConfig>;

type Named = Required<Pick<schema.Dashboard, "uid" | "title" | "tags" | "time" | "templating">>;

export type Dashboard = Json<Omit<schema.Dashboard, "panels" | keyof Named> & Named> & { panels: AnyPanel[] };
