import java.nio.charset.StandardCharsets;
import org.deidentifier.arx.*;
import org.deidentifier.arx.criteria.*;
import org.deidentifier.arx.metric.Metric;

/** ARX 3.9.2 as a peer: java Compare source out hierarchies quasi sensitive k l t suppressed */
public class Compare {
    public static void main(String[] given) throws Exception {
        Data data = Data.create(given[0], StandardCharsets.UTF_8, ',');
        for (String name : given[3].split(","))
            data.getDefinition().setAttributeType(name,
                AttributeType.Hierarchy.create(given[2] + "/" + name + ".csv", StandardCharsets.UTF_8, ';'));
        ARXConfiguration config = ARXConfiguration.create();
        config.addPrivacyModel(new KAnonymity(Integer.parseInt(given[5])));
        boolean diverse = !given[6].isEmpty(), close = !given[7].isEmpty();
        if (diverse) config.addPrivacyModel(new EntropyLDiversity(given[4], Integer.parseInt(given[6])));
        if (close) config.addPrivacyModel(new EqualDistanceTCloseness(given[4], Double.parseDouble(given[7])));
        data.getDefinition().setAttributeType(given[4],
            diverse || close ? AttributeType.SENSITIVE_ATTRIBUTE : AttributeType.INSENSITIVE_ATTRIBUTE);
        config.setSuppressionLimit(Double.parseDouble(given[8]));
        config.setQualityModel(Metric.createLossMetric());
        ARXResult result = new ARXAnonymizer().anonymize(data, config);
        if (!result.isResultAvailable()) System.exit(3);
        result.getOutput(false).save(given[1], ',');
    }
}
