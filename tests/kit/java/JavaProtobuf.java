import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.sparkproject.connect.protobuf.ByteString;
import org.sparkproject.connect.protobuf.DescriptorProtos.FileDescriptorProto;
import org.sparkproject.connect.protobuf.DescriptorProtos.FileDescriptorSet;
import org.sparkproject.connect.protobuf.Descriptors.Descriptor;
import org.sparkproject.connect.protobuf.Descriptors.EnumValueDescriptor;
import org.sparkproject.connect.protobuf.Descriptors.FieldDescriptor;
import org.sparkproject.connect.protobuf.Descriptors.FileDescriptor;
import org.sparkproject.connect.protobuf.DynamicMessage;

/**
 * Google's Java library, out of Spark's own jars, and what from_protobuf makes of its messages: its rules for what is null and
 * for what is bad.
 *
 * <p>Lines: "set HEX NAME", answered with "ok"; "record HEX", answered with the value in JSON-like text, or "bad".
 */
public final class JavaProtobuf {
  private static Descriptor descriptor;

  private static FileDescriptor file(FileDescriptorProto of, Map<String, FileDescriptorProto> all, Map<String, FileDescriptor> made)
      throws Exception {
    if (!made.containsKey(of.getName())) {
      FileDescriptor[] needed = new FileDescriptor[of.getDependencyCount()];
      for (int i = 0; i < needed.length; i++) needed[i] = file(all.get(of.getDependency(i)), all, made);
      made.put(of.getName(), FileDescriptor.buildFrom(of, needed));
    }
    return made.get(of.getName());
  }

  private static String answer(String[] words) throws Exception {
    byte[] bytes = words.length > 1 ? HexFormat.of().parseHex(words[1]) : new byte[0];
    if (words[0].equals("record")) return read(bytes);
    Map<String, FileDescriptorProto> all = new HashMap<>();
    for (FileDescriptorProto each : FileDescriptorSet.parseFrom(bytes).getFileList()) all.put(each.getName(), each);
    Map<String, FileDescriptor> made = new HashMap<>();
    for (FileDescriptorProto each : all.values())
      for (Descriptor message : file(each, all, made).getMessageTypes()) if (message.getFullName().equals(words[2])) descriptor = message;
    return "ok";
  }

  /** A record whose unknown fields have the number of one of its own is bad: it was written with another schema. */
  private static String read(byte[] record) {
    try {
      DynamicMessage message = DynamicMessage.parseFrom(descriptor, record);
      for (int number : message.getUnknownFields().asMap().keySet())
        if (descriptor.findFieldByNumber(number) != null) return "bad type";
      StringBuilder out = new StringBuilder();
      show(out, message);
      return out.toString();
    } catch (Exception error) {
      return "bad " + error.getClass().getSimpleName();
    }
  }

  private static boolean isTime(Descriptor of) {
    return (of.getName().equals("Timestamp") || of.getName().equals("Duration")) && of.getFields().size() == 2;
  }

  private static boolean hasColumn(FieldDescriptor of) {
    if (of.getJavaType() != FieldDescriptor.JavaType.MESSAGE || isTime(of.getMessageType())) return true;
    List<FieldDescriptor> inner = of.getMessageType().getFields();
    return of.isMapField() ? hasColumn(inner.get(1)) : inner.stream().anyMatch(JavaProtobuf::hasColumn);
  }

  /** A value where there is one, or a default that the schema names; all others are null. */
  private static void show(StringBuilder out, DynamicMessage message) {
    String comma = "{";
    for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
      if (!hasColumn(field)) continue;
      out.append(comma).append('"').append(field.getName()).append("\":");
      comma = ",";
      if (field.isMapField()) showMap(out, (List<?>) message.getField(field));
      else if (field.isRepeated()) showList(out, field, (List<?>) message.getField(field));
      else if (message.hasField(field) || field.hasDefaultValue()) showOne(out, field, message.getField(field));
      else out.append("null");
    }
    out.append('}');
  }

  private static void showList(StringBuilder out, FieldDescriptor field, List<?> values) {
    out.append('[');
    for (int i = 0; i < values.size(); i++) {
      out.append(i > 0 ? "," : "");
      showOne(out, field, values.get(i));
    }
    out.append(']');
  }

  private static void showMap(StringBuilder out, List<?> entries) {
    out.append('[');
    for (int place = 0; place < 2; place++) {
      out.append(place > 0 ? ",[" : "[");
      for (int i = 0; i < entries.size(); i++) {
        DynamicMessage entry = (DynamicMessage) entries.get(i);
        FieldDescriptor field = entry.getDescriptorForType().getFields().get(place);
        out.append(i > 0 ? "," : "");
        showOne(out, field, entry.getField(field));
      }
      out.append(']');
    }
    out.append(']');
  }

  private static void showOne(StringBuilder out, FieldDescriptor field, Object value) {
    if (value instanceof DynamicMessage message) {
      if (isTime(message.getDescriptorForType())) out.append(micros(message));
      else show(out, message);
    } else if (value instanceof ByteString bytes) {
      out.append("\"x").append(HexFormat.of().formatHex(bytes.toByteArray())).append('"');
    } else if (value instanceof EnumValueDescriptor name) {
      showText(out, name.getName());
    } else if (value instanceof String text) {
      showText(out, text);
    } else if (value instanceof Float number) {
      out.append("\"f").append(Integer.toHexString(Float.floatToIntBits(number))).append('"');
    } else if (value instanceof Double number) {
      out.append("\"d").append(Long.toHexString(Double.doubleToLongBits(number))).append('"');
    } else {
      out.append(value);
    }
  }

  private static void showText(StringBuilder out, String text) {
    out.append("\"t").append(HexFormat.of().formatHex(text.getBytes(java.nio.charset.StandardCharsets.UTF_8))).append('"');
  }

  private static long micros(DynamicMessage message) {
    List<FieldDescriptor> fields = message.getDescriptorForType().getFields();
    long micros = Math.multiplyExact((long) message.getField(fields.get(0)), 1_000_000L);
    return Math.addExact(micros, (int) message.getField(fields.get(1)) / 1000);
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String answer;
      try {
        answer = answer(line.split(" "));
      } catch (Exception error) {
        answer = "no " + error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
      }
      System.out.println(answer);
      System.out.flush();
    }
  }
}
