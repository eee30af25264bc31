#!/bin/sh
# Submits a pipeline to a Spark master, with the settings in conf/spark-defaults.conf.
#
#   MASTER=spark://host:7077 conf/submit.sh examples/pipeline.py kafka:9092 orders billing /data/billing
#   MASTER=spark://host:7077 conf/submit.sh --conf spark.cores.max=4 examples/pipeline.py kafka:9092 orders billing /data/billing
#
# PYTHON is the interpreter of driver and executors (default: python3), with sparkcohort installed in it on every host.
# It replaces the one in spark-defaults.conf.
set -eu
PYTHON=${PYTHON:-$(command -v python3)}
export PYSPARK_PYTHON="$PYTHON" PYSPARK_DRIVER_PYTHON="$PYTHON"
exec "$(dirname "$PYTHON")/spark-submit" --master "${MASTER:?set MASTER, as spark://host:7077}" \
  --properties-file "$(dirname "$0")/spark-defaults.conf" \
  --conf "spark.pyspark.python=$PYTHON" --conf "spark.pyspark.driver.python=$PYTHON" "$@"
