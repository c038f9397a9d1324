CREATE TABLE audit (
	number BIGINT NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	token_id INTEGER NOT NULL, 
	role VARCHAR(10) NOT NULL, 
	action VARCHAR(60) NOT NULL, 
	subject VARCHAR(200) NOT NULL, 
	outcome INTEGER NOT NULL, 
	CONSTRAINT pk_audit PRIMARY KEY (number), 
	CONSTRAINT fk_audit_token_id FOREIGN KEY(token_id) REFERENCES tokens (id)
)
CREATE TABLE campaigns (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(200) NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	domain TEXT NOT NULL, 
	model VARCHAR(40) NOT NULL, 
	least FLOAT NOT NULL, 
	delta FLOAT NOT NULL, 
	eta FLOAT NOT NULL, 
	point_order VARCHAR(20) NOT NULL, 
	arrangement VARCHAR(20) NOT NULL, 
	records VARCHAR(10) NOT NULL, 
	revision BIGINT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT ck_campaigns_state CHECK (state IN ('draft', 'collecting', 'planned', 'closed'))
)
CREATE TABLE contributions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	campaign_id INTEGER NOT NULL, 
	owner VARCHAR(200) NOT NULL, 
	token_id INTEGER NOT NULL, 
	rows BIGINT NOT NULL, 
	records BIGINT NOT NULL, 
	data BLOB NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	CONSTRAINT uq_contributions_campaign_id_owner UNIQUE (campaign_id, owner), 
	CONSTRAINT fk_contributions_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id), 
	CONSTRAINT fk_contributions_token_id FOREIGN KEY(token_id) REFERENCES tokens (id)
)
CREATE TABLE distributions (
	campaign_id INTEGER NOT NULL, 
	rows BIGINT NOT NULL, 
	data BLOB NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_distributions PRIMARY KEY (campaign_id), 
	CONSTRAINT fk_distributions_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id)
)
CREATE TABLE linkages (
	campaign_id INTEGER NOT NULL, 
	releases BIGINT NOT NULL, 
	l BIGINT NOT NULL, 
	data BLOB NOT NULL, 
	CONSTRAINT pk_linkages PRIMARY KEY (campaign_id), 
	CONSTRAINT fk_linkages_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id)
)
CREATE TABLE plans (
	campaign_id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	n BIGINT NOT NULL, 
	n_tight BIGINT NOT NULL, 
	records BIGINT NOT NULL, 
	m FLOAT NOT NULL, 
	p FLOAT NOT NULL, 
	classes BIGINT NOT NULL, 
	document TEXT NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_plans PRIMARY KEY (campaign_id), 
	CONSTRAINT fk_plans_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id)
)
CREATE TABLE releases (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	campaign_id INTEGER NOT NULL, 
	owner VARCHAR(200) NOT NULL, 
	token_id INTEGER NOT NULL, 
	files_digest VARCHAR(64) NOT NULL, 
	files TEXT NOT NULL, 
	rows BIGINT NOT NULL, 
	manifest TEXT NOT NULL, 
	achieved FLOAT, 
	counts BLOB, 
	at VARCHAR(32) NOT NULL, 
	CONSTRAINT uq_releases_campaign_id_owner_files_digest UNIQUE (campaign_id, owner, files_digest), 
	CONSTRAINT fk_releases_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id), 
	CONSTRAINT fk_releases_token_id FOREIGN KEY(token_id) REFERENCES tokens (id)
)
CREATE TABLE reports (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	campaign_id INTEGER NOT NULL, 
	owner VARCHAR(200) NOT NULL, 
	token_id INTEGER NOT NULL, 
	records BIGINT NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	CONSTRAINT uq_reports_campaign_id_owner UNIQUE (campaign_id, owner), 
	CONSTRAINT fk_reports_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id), 
	CONSTRAINT fk_reports_token_id FOREIGN KEY(token_id) REFERENCES tokens (id)
)
CREATE TABLE requests (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	client VARCHAR(200) NOT NULL, 
	token_id INTEGER NOT NULL, 
	campaign_id INTEGER, 
	attributes TEXT NOT NULL, 
	l FLOAT, 
	delta FLOAT, 
	purpose TEXT NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	reason TEXT NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	decided_at VARCHAR(32), 
	CONSTRAINT ck_requests_state CHECK (state IN ('open', 'approved', 'refused')), 
	CONSTRAINT fk_requests_token_id FOREIGN KEY(token_id) REFERENCES tokens (id), 
	CONSTRAINT fk_requests_campaign_id FOREIGN KEY(campaign_id) REFERENCES campaigns (id)
)
CREATE TABLE sqlite_sequence(name,seq)
CREATE TABLE tokens (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(200) NOT NULL, 
	role VARCHAR(10) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	expires_at VARCHAR(32) NOT NULL, 
	revoked_at VARCHAR(32), 
	CONSTRAINT uq_tokens_digest UNIQUE (digest), 
	CONSTRAINT ck_tokens_role CHECK (role IN ('agency', 'owner', 'client'))
)
CREATE TRIGGER audit_no_delete BEFORE delete ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are final'); END
CREATE TRIGGER audit_no_replace_0 BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number) BEGIN SELECT RAISE(ABORT, 'rows of audit are not replaced'); END
CREATE TRIGGER audit_no_update BEFORE update ON audit BEGIN SELECT RAISE(ABORT, 'rows of audit are final'); END
CREATE TRIGGER campaigns_fixed BEFORE UPDATE ON campaigns WHEN NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.domain IS NOT OLD.domain OR NEW.model IS NOT OLD.model OR NEW.least IS NOT OLD.least OR NEW.delta IS NOT OLD.delta OR NEW.eta IS NOT OLD.eta OR NEW.point_order IS NOT OLD.point_order OR NEW.arrangement IS NOT OLD.arrangement OR NEW.records IS NOT OLD.records OR NEW.created_at IS NOT OLD.created_at BEGIN SELECT RAISE(ABORT, 'rows of campaigns are not redefined'); END
CREATE TRIGGER campaigns_never_back BEFORE UPDATE ON campaigns WHEN CASE NEW.state WHEN 'draft' THEN 0 WHEN 'collecting' THEN 1 WHEN 'planned' THEN 2 WHEN 'closed' THEN 3 END < CASE OLD.state WHEN 'draft' THEN 0 WHEN 'collecting' THEN 1 WHEN 'planned' THEN 2 WHEN 'closed' THEN 3 END BEGIN SELECT RAISE(ABORT, 'a campaign never goes back'); END
CREATE TRIGGER campaigns_no_delete BEFORE DELETE ON campaigns BEGIN SELECT RAISE(ABORT, 'rows of campaigns are not deleted'); END
CREATE TRIGGER campaigns_no_replace_0 BEFORE INSERT ON campaigns WHEN EXISTS (SELECT 1 FROM campaigns WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'rows of campaigns are not replaced'); END
CREATE TRIGGER contributions_delete_collecting BEFORE DELETE ON contributions WHEN (SELECT state FROM campaigns WHERE id = OLD.campaign_id) IS NOT 'collecting' BEGIN SELECT RAISE(ABORT, 'the campaign is not collecting'); END
CREATE TRIGGER contributions_insert_collecting BEFORE INSERT ON contributions WHEN (SELECT state FROM campaigns WHERE id = NEW.campaign_id) IS NOT 'collecting' BEGIN SELECT RAISE(ABORT, 'the campaign is not collecting'); END
CREATE TRIGGER contributions_update_collecting BEFORE UPDATE ON contributions WHEN (SELECT state FROM campaigns WHERE id = NEW.campaign_id) IS NOT 'collecting' BEGIN SELECT RAISE(ABORT, 'the campaign is not collecting'); END
CREATE TRIGGER plans_no_delete BEFORE delete ON plans BEGIN SELECT RAISE(ABORT, 'rows of plans are final'); END
CREATE TRIGGER plans_no_replace_0 BEFORE INSERT ON plans WHEN EXISTS (SELECT 1 FROM plans WHERE campaign_id = NEW.campaign_id) BEGIN SELECT RAISE(ABORT, 'rows of plans are not replaced'); END
CREATE TRIGGER plans_no_update BEFORE update ON plans BEGIN SELECT RAISE(ABORT, 'rows of plans are final'); END
CREATE TRIGGER releases_no_delete BEFORE delete ON releases BEGIN SELECT RAISE(ABORT, 'rows of releases are final'); END
CREATE TRIGGER releases_no_replace_0 BEFORE INSERT ON releases WHEN EXISTS (SELECT 1 FROM releases WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'rows of releases are not replaced'); END
CREATE TRIGGER releases_no_replace_1 BEFORE INSERT ON releases WHEN EXISTS (SELECT 1 FROM releases WHERE campaign_id = NEW.campaign_id AND owner = NEW.owner AND files_digest = NEW.files_digest) BEGIN SELECT RAISE(ABORT, 'rows of releases are not replaced'); END
CREATE TRIGGER releases_no_update BEFORE update ON releases BEGIN SELECT RAISE(ABORT, 'rows of releases are final'); END
CREATE TRIGGER tokens_fixed BEFORE UPDATE ON tokens WHEN NEW.id IS NOT OLD.id OR NEW.name IS NOT OLD.name OR NEW.role IS NOT OLD.role OR NEW.digest IS NOT OLD.digest OR NEW.created_at IS NOT OLD.created_at BEGIN SELECT RAISE(ABORT, 'rows of tokens are not redefined'); END
CREATE TRIGGER tokens_never_back BEFORE UPDATE ON tokens WHEN OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL BEGIN SELECT RAISE(ABORT, 'a revoked token stays revoked'); END
CREATE TRIGGER tokens_no_delete BEFORE DELETE ON tokens BEGIN SELECT RAISE(ABORT, 'rows of tokens are not deleted'); END
CREATE TRIGGER tokens_no_replace_0 BEFORE INSERT ON tokens WHEN EXISTS (SELECT 1 FROM tokens WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'rows of tokens are not replaced'); END
CREATE TRIGGER tokens_no_replace_1 BEFORE INSERT ON tokens WHEN EXISTS (SELECT 1 FROM tokens WHERE digest = NEW.digest) BEGIN SELECT RAISE(ABORT, 'rows of tokens are not replaced'); END
