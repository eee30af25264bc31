import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.avro.AvroDeserializer;
import org.apache.spark.sql.avro.AvroSerializer;
import org.apache.spark.sql.avro.SchemaConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator;
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * What from_avro does, without a session: Avro's reader, then Spark's deserializer.
 *
 * <p>Lines: "type SCHEMA", answered with Spark's type; "schemas WRITER\tREADER", answered with "ok" or "no"; "record HEX",
 * answered with the value in JSON-like text, or "bad".  And from_json: "columns DDL", answered with "ok"; "zone NAME" (of the session); "json HEX",
 * answered with the value.  And back, of a row that from_json has made: "tojson HEX" and "toavro HEX\tSCHEMA", answered with the record in hex;
 * "avrotype DDL", answered with the schema that to_avro has without one.
 */
public final class SparkAvro {
  private static GenericDatumReader<Object> reader;
  private static AvroDeserializer deserializer;
  private static DataType type;
  private static JsonToStructsEvaluator fromJson;
  private static String zone = "UTC";

  private static DataType sqlType(Schema schema) {
    return SchemaConverters.toSqlType(schema, false, "", -1).dataType();
  }

  private static Schema parse(String text) {
    return new Schema.Parser().setValidateDefaults(false).parse(text);
  }

  private static String answer(String line) throws java.io.IOException {
    int space = line.indexOf(' ');
    String rest = line.substring(space + 1);
    switch (line.substring(0, space)) {
      case "type":
        return sqlType(parse(rest)).catalogString();
      case "schemas":
        String[] both = rest.split("\t");
        Schema expected = parse(both[1]);
        reader = new GenericDatumReader<>(parse(both[0]), expected);
        type = sqlType(expected);
        deserializer = new AvroDeserializer(expected, type, "CORRECTED", false, "", -1);
        return "ok";
      case "columns":
        type = StructType.fromDDL(rest);
        fromJson = new JsonToStructsEvaluator(Map$.MODULE$.empty(), type, "_corrupt", Option.apply(zone), false);
        return "ok";
      case "zone":
        zone = rest;
        return "ok";
      case "avrotype":
        return SchemaConverters.toAvroType(StructType.fromDDL(rest), false, "topLevelRecord", "").toString();
      case "tojson":
        Object columns = fromJson.evaluate(UTF8String.fromBytes(HexFormat.of().parseHex(rest)));
        Map<String, String> none = Map$.MODULE$.empty();
        Object text = new StructsToJsonEvaluator(none, type, Option.apply(zone)).evaluate(columns);
        return text == null ? "null" : HexFormat.of().formatHex(((UTF8String) text).getBytes());
      case "toavro":
        String[] parts = rest.split("\t");
        return written(HexFormat.of().parseHex(parts[0]), parse(parts[1]));
      case "json":
        StringBuilder out = new StringBuilder();
        show(out, fromJson.evaluate(UTF8String.fromBytes(HexFormat.of().parseHex(rest))), type);
        return out.toString();
      default:
        return read(HexFormat.of().parseHex(rest));
    }
  }

  private static String read(byte[] record) {
    try {
      Object datum = reader.read(null, DecoderFactory.get().binaryDecoder(record, null));
      StringBuilder out = new StringBuilder();
      show(out, deserializer.deserialize(datum).get(), type);
      return out.toString();
    } catch (Exception | AssertionError | OutOfMemoryError error) { // it makes room for as many items as are promised
      return "bad " + error.getClass().getSimpleName();
    }
  }

  private static String written(byte[] json, Schema schema) throws java.io.IOException {
    Object row = fromJson.evaluate(UTF8String.fromBytes(json));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
    new GenericDatumWriter<Object>(schema).write(new AvroSerializer(type, schema, false).serialize(row), encoder);
    return HexFormat.of().formatHex(out.toByteArray());
  }

  private static void show(StringBuilder out, Object value, DataType of) {
    if (value == null) {
      out.append("null");
    } else if (of instanceof StructType struct) {
      InternalRow row = (InternalRow) value;
      out.append('{');
      for (int i = 0; i < struct.length(); i++) {
        StructField field = struct.apply(i);
        out.append(i > 0 ? "," : "").append('"').append(field.name()).append("\":");
        show(out, row.isNullAt(i) ? null : row.get(i, field.dataType()), field.dataType());
      }
      out.append('}');
    } else if (of instanceof ArrayType array) {
      out.append('[');
      showAll(out, (ArrayData) value, array.elementType());
      out.append(']');
    } else if (of instanceof MapType map) {
      MapData entries = (MapData) value;
      out.append("[[");
      showAll(out, entries.keyArray(), map.keyType());
      out.append("],[");
      showAll(out, entries.valueArray(), map.valueType());
      out.append("]]");
    } else if (value instanceof byte[] bytes) {
      out.append("\"x").append(HexFormat.of().formatHex(bytes)).append('"');
    } else if (value instanceof UTF8String text) {
      out.append("\"t").append(HexFormat.of().formatHex(text.getBytes())).append('"');
    } else if (value instanceof Float number) {
      out.append("\"f").append(Integer.toHexString(Float.floatToRawIntBits(number))).append('"');
    } else if (value instanceof Double number) {
      out.append("\"d").append(Long.toHexString(Double.doubleToRawLongBits(number))).append('"');
    } else if (value instanceof Decimal number) {
      out.append("\"n").append(number.toJavaBigDecimal().toPlainString()).append('"');
    } else {
      out.append(value);
    }
  }

  private static void showAll(StringBuilder out, ArrayData values, DataType of) {
    for (int i = 0; i < values.numElements(); i++) {
      out.append(i > 0 ? "," : "");
      show(out, values.isNullAt(i) ? null : values.get(i, of), of);
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String answer;
      try {
        answer = answer(line);
      } catch (Exception error) {
        answer = "no " + error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
      }
      System.out.println(answer);
      System.out.flush();
    }
  }
}
